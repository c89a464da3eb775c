//! One axis of a Resize: which input elements each output element is made of.

/// How an output position becomes a position of the input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Coordinates {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    TfHalfPixel,
    Crop,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Nearest {
    RoundPreferFloor,
    RoundPreferCeil,
    Floor,
    Ceil,
    /// Before opset 11: down when growing, up when shrinking.
    Simple,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Interpolation {
    Nearest(Nearest),
    Linear { antialias: bool, exclude_outside: bool },
    Cubic { a: f32, antialias: bool, exclude_outside: bool },
}

/// One axis: sizes, the scale in effect, and the part of the input that is cropped to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    pub size: usize,
    pub out: usize,
    pub scale: f32,
    pub roi: [f32; 2],
}

/// What an axis of the output is made of.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plan {
    /// The same elements.
    Keep,
    /// One input element for each output element.
    Pick(Vec<u32>),
    /// `[out, size]`, row-major.
    Weights(Vec<f32>),
}

impl Axis {
    /// Is the scale just the quotient of the sizes?
    pub fn is_quotient(&self) -> bool {
        self.scale == self.out as f32 / self.size as f32
    }

    /// Does the scale give a whole number of elements?
    pub fn scale_is_whole(&self) -> bool {
        (self.scale * self.size as f32 - self.out as f32).abs() < 1e-3
    }

    /// The input position of output position `i`, computed in 32 bits as ONNX Runtime does.
    fn position(&self, coordinates: Coordinates, i: usize) -> f32 {
        let (x, size, out) = (i as f32, self.size as f32, self.out as f32);
        match coordinates {
            Coordinates::HalfPixel => (x + 0.5) / self.scale - 0.5,
            Coordinates::HalfPixelSymmetric => {
                let adjustment = out / (self.scale * size);
                let offset = size / 2.0 * (1.0 - adjustment);
                offset + (x + 0.5) / self.scale - 0.5
            }
            Coordinates::PytorchHalfPixel if self.out > 1 => (x + 0.5) / self.scale - 0.5,
            Coordinates::PytorchHalfPixel => 0.0,
            Coordinates::AlignCorners if self.out > 1 => x * (size - 1.0) / (out - 1.0),
            Coordinates::AlignCorners => 0.0,
            Coordinates::Asymmetric => x / self.scale,
            Coordinates::TfHalfPixel => (x + 0.5) / self.scale,
            Coordinates::Crop if self.out > 1 => {
                self.roi[0] * (size - 1.0) + x * (self.roi[1] - self.roi[0]) * (size - 1.0) / (out - 1.0)
            }
            Coordinates::Crop => 0.5 * (self.roi[0] + self.roi[1]) * (size - 1.0),
        }
    }

    /// Output positions that lie outside the input and take the extrapolation value (only when cropping).
    pub fn outside(&self, coordinates: Coordinates) -> Vec<bool> {
        (0..self.out)
            .map(|i| {
                coordinates == Coordinates::Crop && {
                    let x = self.position(coordinates, i);
                    x < 0.0 || x > self.size as f32 - 1.0
                }
            })
            .collect()
    }

    pub fn plan(&self, mode: Interpolation, coordinates: Coordinates) -> Plan {
        let positions = (0..self.out).map(|i| self.position(coordinates, i));
        let last = self.size as i64 - 1;
        if let Interpolation::Nearest(rule) = mode {
            let index: Vec<u32> = positions.map(|x| nearest(x, rule, self.scale).clamp(0, last) as u32).collect();
            let keeps = self.out == self.size && index.iter().enumerate().all(|(i, &j)| i == j as usize);
            return if keeps { Plan::Keep } else { Plan::Pick(index) };
        }
        let mut weights = vec![0f32; self.out * self.size];
        for (i, x) in positions.enumerate() {
            self.weigh(mode, f64::from(x), &mut weights[i * self.size..(i + 1) * self.size]);
        }
        let one = |i: usize| i / self.size == i % self.size;
        let keeps = self.out == self.size
            && weights.iter().enumerate().all(|(i, &w)| (w - f32::from(u8::from(one(i)))).abs() < 1e-7);
        if keeps { Plan::Keep } else { Plan::Weights(weights) }
    }

    /// The weights of all input elements for the output element at input position `x`.
    fn weigh(&self, mode: Interpolation, x: f64, row: &mut [f32]) {
        let (radius, antialias, exclude) = match mode {
            Interpolation::Linear { antialias, exclude_outside } => (1.0, antialias, exclude_outside),
            Interpolation::Cubic { antialias, exclude_outside, .. } => (2.0, antialias, exclude_outside),
            Interpolation::Nearest(_) => return,
        };
        // Antialiasing widens the kernel by the factor that the axis shrinks by.
        let narrow = if antialias { f64::from(self.scale).min(1.0) } else { 1.0 };
        let last = row.len() as i64 - 1;
        let (from, to) = ((x - radius / narrow).ceil() as i64, (x + radius / narrow).floor() as i64);
        let taps: Vec<(i64, f64)> = (from..=to)
            .map(|p| (p, kernel(mode, (p as f64 - x) * narrow)))
            .filter(|(p, _)| !exclude || (0..=last).contains(p))
            .collect();
        let sum: f64 = taps.iter().map(|t| t.1).sum();
        if sum == 0.0 {
            return;
        }
        let mut exact = vec![0f64; row.len()];
        for (p, w) in taps {
            exact[p.clamp(0, last) as usize] += w / sum;
        }
        for (w, e) in row.iter_mut().zip(exact) {
            *w = e as f32;
        }
    }
}

/// The weight of an element at distance `d`.
fn kernel(mode: Interpolation, d: f64) -> f64 {
    let d = d.abs();
    match mode {
        Interpolation::Cubic { a, .. } => {
            let a = f64::from(a);
            if d <= 1.0 {
                ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
            } else if d < 2.0 {
                ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
            } else {
                0.0
            }
        }
        _ => (1.0 - d).max(0.0),
    }
}

fn nearest(x: f32, rule: Nearest, scale: f32) -> i64 {
    let down = x.floor();
    (match rule {
        Nearest::RoundPreferFloor if x == down + 0.5 => down,
        Nearest::RoundPreferFloor => x.round(),
        // Halves away from zero, as C's round; below zero it makes no difference after clamping.
        Nearest::RoundPreferCeil => x.round(),
        Nearest::Floor => down,
        Nearest::Ceil => x.ceil(),
        Nearest::Simple if scale < 1.0 => x.ceil(),
        Nearest::Simple => x.trunc(),
    }) as i64
}

impl Plan {
    /// The factor of a plan that only repeats each element this many times.
    pub fn repeats(&self, size: usize, out: usize) -> Option<u32> {
        match self {
            Self::Keep => Some(1),
            Self::Pick(index) if size > 0 && out.is_multiple_of(size) => {
                let factor = out / size;
                index.iter().enumerate().all(|(i, &j)| j as usize == i / factor).then_some(factor as u32)
            }
            _ => None,
        }
    }
}
