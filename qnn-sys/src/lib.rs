//! Raw bindings of the part of the QNN ABI that qnnc uses.
