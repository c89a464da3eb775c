//! What a comparison came to, and its renderers.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{Difference, VerifyOptions};

/// Version of the JSON layout.
const SCHEMA: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerifyReport {
    pub schema: u32,
    pub model: String,
    /// What the compiled graph ran on.
    pub runner: String,
    /// What it was compared with.
    pub reference: String,
    /// Of made-up inputs; None: the user's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seed: Option<u64>,
    /// Lowest cosine that passes.
    pub threshold: f64,
    pub passed: bool,
    pub outputs: Vec<OutputReport>,
    /// Outputs that the compiled graph does not have: known at compile time, or inputs as they are.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub not_compared: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputReport {
    pub name: String,
    pub passed: bool,
    #[serde(flatten)]
    pub difference: Difference,
}

impl OutputReport {
    pub fn new(name: &str, difference: Difference, threshold: f64) -> Self {
        let d = &difference;
        let passed = d.mismatch.is_none() && d.nonfinite_mismatches == 0 && d.cosine >= threshold;
        Self { name: name.into(), passed, difference }
    }
}

impl VerifyReport {
    pub(super) fn new(
        options: &VerifyOptions,
        runner: String,
        reference: String,
        outputs: Vec<OutputReport>,
        not_compared: Vec<String>,
    ) -> Self {
        Self {
            schema: SCHEMA,
            model: options.model.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            runner,
            reference,
            seed: options.inputs.is_none().then_some(options.seed),
            threshold: options.cosine,
            passed: outputs.iter().all(|o| o.passed),
            outputs,
            not_compared,
        }
    }

    /// 0 if every output is close enough, else 1.
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.passed)
    }

    /// The report as indented JSON with a newline at the end.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// The report in a few lines.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_text(&mut out);
        // Names come from the model: control characters must not reach the terminal.
        out.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        let inputs = self.seed.map_or("given inputs".into(), |s| format!("inputs of seed {s}"));
        writeln!(out, "{}: {} against {}, {inputs}", self.model, self.runner, self.reference)?;
        for o in &self.outputs {
            let d = &o.difference;
            let mark = if o.passed { "ok  " } else { "FAIL" };
            write!(out, "  {mark} {} {}", o.name.replace('\n', " "), d.ty)?;
            if let Some(m) = &d.mismatch {
                writeln!(out, ": {m}")?;
                continue;
            }
            write!(out, ": cosine {:.6}, max difference {:.4e} of {:.4e}", d.cosine, d.max_abs_diff, d.max_abs)?;
            if d.nonfinite_mismatches > 0 {
                write!(out, ", {} of {} not finite alike", d.nonfinite_mismatches, d.elements)?;
            }
            writeln!(out)?;
        }
        for name in &self.not_compared {
            writeln!(out, "  -    {name}: not computed by the compiled graph")?;
        }
        let failed = self.outputs.iter().filter(|o| !o.passed).count();
        if failed == 0 {
            writeln!(out, "every output has a cosine of at least {}", self.threshold)
        } else {
            writeln!(out, "{failed} of {} are below a cosine of {}", self.outputs.len(), self.threshold)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::compare;
    use super::*;
    use crate::ir::Tensor;

    fn report() -> VerifyReport {
        let t = |v: &[f32]| Tensor::from_f32(vec![v.len()], v);
        let options = VerifyOptions { seed: 3, ..VerifyOptions::new("dir/m.onnx") };
        let outputs = vec![
            OutputReport::new("y", compare(&t(&[1.0, 2.0]), &t(&[1.0, 2.5])), 0.99),
            OutputReport::new("z\u{7}", compare(&t(&[f32::NAN, 2.0]), &t(&[1.0, 2.0])), 0.999),
            OutputReport::new("s", compare(&t(&[1.0]), &t(&[1.0, 2.0])), 0.999),
        ];
        VerifyReport::new(&options, "HTP emulation".into(), "ONNX Runtime 1.27.0".into(), outputs, vec!["c".into()])
    }

    #[test]
    fn text() {
        assert_eq!(
            report().text(),
            "m.onnx: HTP emulation against ONNX Runtime 1.27.0, inputs of seed 3\n\
             \x20 ok   y float32[2]: cosine 0.996546, max difference 5.0000e-1 of 2.5000e0\n\
             \x20 FAIL z  float32[2]: cosine 1.000000, max difference 0.0000e0 of 2.0000e0, 1 of 2 not finite alike\n\
             \x20 FAIL s float32[2]: float32[1] instead of float32[2]\n\
             \x20 -    c: not computed by the compiled graph\n\
             2 of 3 are below a cosine of 0.999\n"
        );
        assert_eq!(report().exit_code(), 1);
    }

    #[test]
    fn json_reads_back() {
        let r = report();
        assert_eq!(serde_json::from_str::<VerifyReport>(&r.json()).unwrap(), r);
    }
}
