//! Tests of the absorption.
