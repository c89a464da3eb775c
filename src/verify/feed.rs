//! Inputs: from the user's files, or made from a seed.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use bytes::Bytes;

use super::Named;
use super::npy::read_npy;
use crate::Error;
use crate::ir::{DataType, Tensor, TensorType};

/// An input of the model as it was compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputSpec {
    pub name: String,
    pub dtype: DataType,
    pub shape: Vec<usize>,
}

impl InputSpec {
    fn ty(&self) -> String {
        TensorType::new(self.dtype, self.shape.iter().map(|&d| d.into()).collect()).to_string()
    }
}

/// Inputs from `.npz` (an array for each input, by name) or from `.npy` (a model of one input).
///
/// # Errors
/// A file that cannot be read, an input without an array, an array of another type or shape.
pub fn load_inputs(path: &Path, inputs: &[InputSpec]) -> Result<Vec<Named>, Error> {
    let mut file = File::open(path).map_err(|e| Error::unreadable(path, &e))?;
    let mut magic = [0; 4];
    let got = file.read(&mut magic).map_err(|e| Error::unreadable(path, &e))?;
    if !magic[..got].starts_with(b"PK") {
        let [spec] = inputs else {
            let names: Vec<&str> = inputs.iter().map(|i| i.name.as_str()).collect();
            return Err(Error::input(format!(
                "{} holds one array, the model has {} inputs: {}",
                path.display(),
                inputs.len(),
                names.join(", ")
            ))
            .help("save them in one file: numpy.savez(\"inputs.npz\", **{name: array, ...})"));
        };
        let data = std::fs::read(path).map_err(|e| Error::unreadable(path, &e))?;
        return Ok(vec![(spec.name.clone(), array(path, &data, spec)?)]);
    }
    let bad = |e: zip::result::ZipError| Error::input(format!("cannot read {}: {e}", path.display()));
    let mut archive = zip::ZipArchive::new(file).map_err(bad)?;
    let mut feeds = vec![];
    for spec in inputs {
        let entry = format!("{}.npy", spec.name);
        if archive.index_for_name(&entry).is_none() {
            let names: Vec<String> = archive
                .file_names()
                .filter_map(Result::ok)
                .map(|n| n.strip_suffix(".npy").unwrap_or(&n).to_string())
                .collect();
            return Err(Error::input(format!(
                "{} has no array for input {:?} (it has {})",
                path.display(),
                spec.name,
                names.join(", ")
            )));
        }
        let mut data = vec![];
        archive.by_name(&entry).map_err(bad)?.read_to_end(&mut data).map_err(|e| Error::unreadable(path, &e))?;
        feeds.push((spec.name.clone(), array(path, &data, spec)?));
    }
    Ok(feeds)
}

fn array(path: &Path, data: &[u8], spec: &InputSpec) -> Result<Tensor, Error> {
    let at = || format!("{}, input {:?}", path.display(), spec.name);
    let t = read_npy(data).map_err(|e| Error::input(format!("{}: {e}", at())))?;
    if t.dtype() != spec.dtype || t.shape() != spec.shape {
        let found = InputSpec { name: String::new(), dtype: t.dtype(), shape: t.shape().to_vec() };
        return Err(Error::input(format!("{}: the array is {}, the model takes {}", at(), found.ty(), spec.ty())));
    }
    Ok(t)
}

/// Inputs that a model of the usual kind can make sense of, the same for the same seed and name: floats are normal,
/// bytes are pixels, masks are ones, positions count up, sampling rates are 16000, other integers are small.
///
/// # Errors
/// An input of a type that no rule fits.
pub fn generate(inputs: &[InputSpec], seed: u64) -> Result<Vec<Named>, Error> {
    inputs.iter().map(|spec| Ok((spec.name.clone(), one(spec, seed)?))).collect()
}

fn one(spec: &InputSpec, seed: u64) -> Result<Tensor, Error> {
    let unfit = || Error::input(format!("input {:?} is {}: give a value with --inputs", spec.name, spec.ty()));
    let shape = spec.shape.clone();
    let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).ok_or_else(unfit)?;
    let mut random = Random::new(seed, &spec.name);
    let low = spec.name.to_lowercase();
    let same = |v: i128| vec![v; count];
    let ints: Vec<i128> = match spec.dtype {
        d if d.is_float() => {
            let values: Vec<f64> = (0..count).map(|_| random.normal()).collect();
            return Tensor::from_f64(d, shape, &values).ok_or_else(unfit);
        }
        DataType::Bool => return Ok(Tensor::splat(DataType::Bool, shape, Bytes::from_static(&[1]))),
        DataType::U8 => (0..count).map(|_| i128::from(random.below(255))).collect(),
        d if !d.is_int() => return Err(unfit()),
        _ if low.contains("mask") => same(1),
        _ if low == "sr" => same(16000),
        _ if low.contains("position") => {
            let last = shape.last().copied().unwrap_or(1).max(1);
            (0..count).map(|i| (i % last) as i128).collect()
        }
        _ if low.contains("type") => same(0),
        _ => (0..count).map(|_| i128::from(1 + random.below(19))).collect(),
    };
    Tensor::from_i128(spec.dtype, shape, &ints).ok_or_else(unfit)
}

/// SplitMix64: small, and the same everywhere.
#[derive(Debug)]
struct Random(u64);

impl Random {
    /// Streams of different names differ, so that one input more does not change the others.
    fn new(seed: u64, name: &str) -> Self {
        let hash =
            name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Mean 0, deviation 1 (Box and Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::super::npy::write_npy;
    use super::*;
    use std::io::Write;

    fn spec(name: &str, dtype: DataType, shape: &[usize]) -> InputSpec {
        InputSpec { name: name.into(), dtype, shape: shape.to_vec() }
    }

    fn ints(name: &str, dtype: DataType, shape: &[usize]) -> Vec<i64> {
        generate(&[spec(name, dtype, shape)], 0).unwrap()[0].1.to_i64s().unwrap()
    }

    #[test]
    fn rules() {
        assert_eq!(ints("attention_mask", DataType::I64, &[1, 3]), [1, 1, 1]);
        assert_eq!(ints("sr", DataType::I64, &[]), [16000]);
        assert_eq!(ints("position_ids", DataType::I32, &[2, 3]), [0, 1, 2, 0, 1, 2]);
        assert_eq!(ints("token_type_ids", DataType::I64, &[2]), [0, 0]);
        assert_eq!(ints("flag", DataType::Bool, &[2]), [1, 1]);
        assert!(ints("input_ids", DataType::I64, &[100]).iter().all(|v| (1..20).contains(v)));
        assert!(ints("image", DataType::U8, &[1000]).iter().any(|v| *v > 200));
    }

    #[test]
    fn floats_are_normal_and_repeat() {
        let x = spec("x", DataType::F32, &[10_000]);
        let a = generate(std::slice::from_ref(&x), 7).unwrap();
        assert_eq!(a, generate(&[spec("other", DataType::F32, &[1]), x.clone()], 7).unwrap()[1..]);
        assert_ne!(a, generate(&[x], 8).unwrap());
        let v = a[0].1.to_f64s().unwrap();
        let mean = v.iter().sum::<f64>() / 1e4;
        let variance = v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e4;
        assert!(mean.abs() < 0.05 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }

    #[test]
    fn strings_need_a_value() {
        assert_eq!(generate(&[spec("s", DataType::String, &[1])], 0).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn files() {
        let dir = tempfile::tempdir().unwrap();
        let x = Tensor::from_f32(vec![2], &[1.0, 2.0]);
        let ids = Tensor::from_i64(vec![1], &[5]);
        let single = dir.path().join("x.npy");
        std::fs::write(&single, write_npy(&x)).unwrap();
        let both = dir.path().join("both.npz");
        let mut zip = zip::ZipWriter::new(File::create(&both).unwrap());
        for (name, t) in [("x", &x), ("ids", &ids)] {
            zip.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(&write_npy(t)).unwrap();
        }
        zip.finish().unwrap();

        let (sx, sids) = (spec("x", DataType::F32, &[2]), spec("ids", DataType::I64, &[1]));
        assert_eq!(load_inputs(&single, std::slice::from_ref(&sx)).unwrap(), [("x".to_string(), x.clone())]);
        assert_eq!(load_inputs(&both, &[sids.clone(), sx.clone()]).unwrap(), [("ids".into(), ids), ("x".into(), x)]);
        let e = load_inputs(&single, &[sx.clone(), sids]).unwrap_err();
        assert!(e.to_string().ends_with("holds one array, the model has 2 inputs: x, ids"), "{e}");
        let e = load_inputs(&both, &[spec("y", DataType::F32, &[2])]).unwrap_err();
        assert!(e.to_string().contains("no array for input \"y\""), "{e}");
        let e = load_inputs(&single, &[spec("x", DataType::F32, &[1, 2])]).unwrap_err();
        assert!(e.to_string().ends_with("the array is float32[2], the model takes float32[1, 2]"), "{e}");
        assert_eq!(load_inputs(&dir.path().join("none"), &[sx]).unwrap_err().exit_code(), 2);
    }
}
