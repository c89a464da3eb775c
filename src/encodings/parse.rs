//! The JSON forms.

use std::path::Path;

use serde_json::Value;

use super::Given;
use crate::Error;

/// Reads a file of encodings. Tensors that the file keeps in floats are left out.
///
/// # Errors
/// The file cannot be read, is no JSON, or an encoding in it is incomplete: the message says where.
pub fn load(path: &Path) -> Result<Vec<Given>, Error> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::unreadable(path, &e))?;
    let json: Value =
        serde_json::from_str(&text).map_err(|e| Error::input(format!("{} is no JSON: {e}", path.display())))?;
    read(&json).map_err(|why| {
        Error::input(format!("{}: {why}", path.display()))
            .help("the forms are AIMET's 0.6.1 and 1.0.0, and the SDK's quantization overrides")
    })
}

pub(super) fn read(json: &Value) -> Result<Vec<Given>, String> {
    let mut out = vec![];
    let mut found = false;
    for (section, activation) in [("activation_encodings", true), ("param_encodings", false)] {
        match json.get(section) {
            None | Some(Value::Null) => continue,
            // 0.6.1 and the SDK: a list of encodings by the tensor's name.
            Some(Value::Object(tensors)) => {
                for (name, list) in tensors {
                    let at = format!("{section}.{name}");
                    let list = list.as_array().ok_or_else(|| format!("{at} is not a list"))?;
                    out.extend(by_name(name, list, activation, &at)?);
                }
            }
            // 1.0.0: a list of encodings that name their tensor.
            Some(Value::Array(list)) => {
                for (i, e) in list.iter().enumerate() {
                    out.extend(listed(e, activation, &format!("{section}[{i}]"))?);
                }
            }
            Some(_) => return Err(format!("{section} is neither an object nor a list")),
        }
        found = true;
    }
    if !found {
        return Err("it has neither activation_encodings nor param_encodings".into());
    }
    let mut names: Vec<&str> = out.iter().map(|g| g.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|w| w[0] == w[1]) {
        Some(twice) => Err(format!("tensor {:?} has two encodings", twice[0])),
        None => Ok(out),
    }
}

fn number(e: &Value, name: &str, at: &str) -> Result<Option<f64>, String> {
    match e.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(v) => v.as_f64().map(Some).ok_or_else(|| format!("{at}.{name} is {v}, which is no number")),
    }
}

fn bits(value: Option<f64>, at: &str, name: &str) -> Result<u32, String> {
    match value {
        Some(b) if b.fract() == 0.0 && (1.0..=32.0).contains(&b) => Ok(b as u32),
        Some(b) => Err(format!("{at}.{name} is {b}; it must be a whole number from 1 to 32")),
        None => Err(format!("{at}.{name} is missing")),
    }
}

fn is_float(e: &Value) -> bool {
    e.get("dtype").and_then(Value::as_str).is_some_and(|d| d.eq_ignore_ascii_case("float"))
}

fn check(scale: f64, zero: f64, at: &str) -> Result<(f32, i64), String> {
    if !((scale as f32).is_normal() && scale > 0.0) {
        return Err(format!("{at}: the scale is {scale}; it must be a positive number"));
    }
    if zero.fract() != 0.0 || zero.abs() > f64::from(i32::MAX) {
        return Err(format!("{at}: the offset is {zero}; it must be a whole number"));
    }
    Ok((scale as f32, zero as i64))
}

fn by_name(name: &str, list: &[Value], activation: bool, at: &str) -> Result<Option<Given>, String> {
    let Some(first) = list.first() else { return Err(format!("{at} is empty")) };
    if is_float(first) {
        return Ok(None);
    }
    let width = bits(number(first, "bitwidth", at)?, at, "bitwidth")?;
    let levels = 2f64.powi(width as i32) - 1.0;
    let (mut scales, mut zeros) = (vec![], vec![]);
    for (i, e) in list.iter().enumerate() {
        let at = format!("{at}[{i}]");
        let range = (number(e, "min", &at)?, number(e, "max", &at)?);
        let (scale, offset) = match (number(e, "scale", &at)?, number(e, "offset", &at)?, range) {
            (Some(s), Some(o), _) => (s, o),
            (Some(s), None, (Some(low), _)) => (s, (low / s).round()),
            (None, _, (Some(low), Some(high))) => {
                let s = (high - low) / levels;
                (s, (low / s).round())
            }
            _ => return Err(format!("{at} has neither scale and offset nor min and max")),
        };
        let (scale, zero) = check(scale, -offset, &at)?;
        scales.push(scale);
        zeros.push(zero);
    }
    Ok(Some(Given { name: name.into(), activation, bits: width, scales, zeros }))
}

fn listed(e: &Value, activation: bool, at: &str) -> Result<Option<Given>, String> {
    let name = e.get("name").and_then(Value::as_str).ok_or_else(|| format!("{at}.name is missing"))?;
    if is_float(e) {
        return Ok(None);
    }
    let kind = e.get("enc_type").and_then(Value::as_str).unwrap_or("PER_TENSOR");
    if !matches!(kind, "PER_TENSOR" | "PER_CHANNEL") {
        return Err(format!("{at}.enc_type is {kind:?} for {name:?}; PER_TENSOR and PER_CHANNEL are read"));
    }
    let width = bits(number(e, "bw", at)?, at, "bw")?;
    let list = |key: &str| -> Result<Vec<f64>, String> {
        match e.get(key) {
            Some(Value::Array(v)) => v
                .iter()
                .map(|x| x.as_f64().ok_or_else(|| format!("{at}.{key} holds {x}, which is no number")))
                .collect(),
            Some(v) => v.as_f64().map(|x| vec![x]).ok_or_else(|| format!("{at}.{key} is {v}, which is no number")),
            None => Err(format!("{at}.{key} is missing for {name:?}")),
        }
    };
    let (scales, offsets) = (list("scale")?, list("offset")?);
    if scales.len() != offsets.len() || scales.is_empty() {
        return Err(format!("{at}: {} scales and {} offsets for {name:?}", scales.len(), offsets.len()));
    }
    let pairs = scales.iter().zip(&offsets).map(|(s, o)| check(*s, -o, at)).collect::<Result<Vec<_>, _>>()?;
    let (scales, zeros) = pairs.into_iter().unzip();
    Ok(Some(Given { name: name.into(), activation, bits: width, scales, zeros }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_older_form() {
        let file = json!({"version": "0.6.1", "activation_encodings": {
            "x": [{"bitwidth": 8, "dtype": "int", "is_symmetric": "False", "max": 3.0, "min": -2.1, "offset": -105, "scale": 0.02}],
            "kept": [{"bitwidth": 16, "dtype": "float"}],
            "r": [{"bitwidth": 16, "min": -1.0, "max": 1.0}],
        }, "param_encodings": {"w": [{"bitwidth": 4, "offset": -8, "scale": 0.5}, {"bitwidth": 4, "offset": -8, "scale": 0.25}]}});
        let got = read(&file).unwrap();
        let find = |n: &str| got.iter().find(|g| g.name == n);
        assert_eq!(
            (find("x").unwrap().zeros.as_slice(), find("x").unwrap().scales.as_slice()),
            (&[105i64][..], &[0.02f32][..])
        );
        assert!(find("kept").is_none());
        assert_eq!(find("r").unwrap().zeros, [32768]);
        let w = find("w").unwrap();
        assert_eq!((w.bits, w.activation, w.scales.len()), (4, false, 2));
    }

    #[test]
    fn the_newer_form() {
        let file = json!({"version": "1.0.0",
            "activation_encodings": [{"name": "x", "dtype": "INT", "bw": 16, "enc_type": "PER_TENSOR", "is_sym": false, "scale": [0.001], "offset": [-100]}],
            "param_encodings": [{"name": "w", "dtype": "INT", "bw": 8, "enc_type": "PER_CHANNEL", "is_sym": true, "scale": [0.1, 0.2], "offset": [-128, -128]}]});
        let got = read(&file).unwrap();
        assert_eq!((got[0].bits, got[0].zeros.as_slice()), (16, &[100i64][..]));
        assert_eq!(got[1].scales, [0.1, 0.2]);
    }

    #[test]
    fn errors_say_where() {
        for (file, want) in [
            (json!({"x": 1}), "neither activation_encodings nor param_encodings"),
            (json!({"activation_encodings": {"x": [{"bitwidth": 8}]}}), "activation_encodings.x[0] has neither"),
            (json!({"activation_encodings": {"x": [{"bitwidth": 8, "scale": 0.0, "offset": 0}]}}), "the scale is 0"),
            (json!({"activation_encodings": {"x": [{"scale": 1.0, "offset": 0}]}}), "x.bitwidth is missing"),
            (
                json!({"param_encodings": [{"name": "w", "bw": 8, "scale": [1.0, 2.0], "offset": [0]}]}),
                "2 scales and 1 offsets",
            ),
            (
                json!({"param_encodings": [{"name": "w", "bw": 4, "enc_type": "LPBQ", "scale": [1.0], "offset": [0]}]}),
                "LPBQ",
            ),
            (
                json!({"activation_encodings": {"x": [{"bitwidth": 8, "scale": 1.0, "offset": 0}]}, "param_encodings": {"x": [{"bitwidth": 8, "scale": 1.0, "offset": 0}]}}),
                "\"x\" has two encodings",
            ),
        ] {
            let e = read(&file).unwrap_err();
            assert!(e.contains(want), "{e}");
        }
    }
}
