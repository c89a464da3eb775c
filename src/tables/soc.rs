//! The chips that models are prepared for (`op-tables/socs.json`).

use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// One chip, as the HTP backend sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Soc {
    /// The number that the backend takes.
    pub id: u32,
    /// Such as `SM8650`; `SOC<id>` when nobody says its name.
    pub name: String,
    /// Such as `Snapdragon 8 Gen 3`.
    pub marketing: Option<String>,
    pub aliases: Vec<String>,
    /// Hexagon version, 68 to 85.
    pub arch: u32,
    /// The most VTCM that a graph can get, in MB.
    pub vtcm_mb: u32,
    pub hvx_threads: u32,
    /// Does the validator take FLOAT_16 (and so float models)?
    pub fp16: bool,
    /// 16-bit weights with 16-bit activations?
    pub w16a16: bool,
    pub bf16: bool,
    /// Does preparing report simulated cycles and bytes?
    pub estimates: bool,
    /// First QAIRT release that knows it, such as `2.47`.
    pub since: String,
    /// Key into the table's `sources`.
    pub source: String,
}

impl Soc {
    /// `SM8650 (Snapdragon 8 Gen 3, v75)`.
    pub fn describe(&self) -> String {
        match &self.marketing {
            Some(marketing) => format!("{} ({marketing}, v{})", self.name, self.arch),
            None => format!("{} (v{})", self.name, self.arch),
        }
    }

    /// Does QAIRT `version` (`2.47`) know this chip?
    pub fn known_to(&self, version: &str) -> bool {
        let key = |v: &str| -> Vec<u32> { v.split('.').map(|p| p.parse().unwrap_or(0)).collect() };
        key(&self.since) <= key(version)
    }

    fn keys(&self) -> impl Iterator<Item = &str> {
        [self.name.as_str()].into_iter().chain(self.marketing.as_deref()).chain(self.aliases.iter().map(String::as_str))
    }
}

#[derive(Default, Deserialize)]
struct Table {
    socs: Vec<Soc>,
}

static TABLE: LazyLock<Table> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../op-tables/socs.json")).unwrap_or_default());

/// All chips, by number.
pub fn socs() -> &'static [Soc] {
    &TABLE.socs
}

/// A name that is in no row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown SoC {name:?}")]
pub struct UnknownSoc {
    pub name: String,
    /// The closest known names, best first; may be empty.
    pub similar: Vec<String>,
}

impl From<UnknownSoc> for Error {
    fn from(error: UnknownSoc) -> Self {
        let help = if error.similar.is_empty() {
            "use a name such as sm8650, qcs8550 or sc8380xp".to_owned()
        } else {
            format!("did you mean {}?", error.similar.join(" or "))
        };
        Self::input(error.to_string()).help(help)
    }
}

/// The chip called `name`: its name, marketing name, an alias or its number; upper and lower case, spaces, `-` and `_`
/// make no difference, and `Snapdragon` may be left out.
pub fn find_soc(name: &str) -> Result<&'static Soc, UnknownSoc> {
    let wanted = normalise(name);
    let by_name = socs().iter().find(|soc| soc.keys().any(|k| normalise(k) == wanted));
    let number = wanted.strip_prefix("soc").unwrap_or(&wanted).parse::<u32>().ok();
    let found = by_name.or_else(|| socs().iter().find(|soc| Some(soc.id) == number));
    found.ok_or_else(|| UnknownSoc { name: name.to_owned(), similar: similar(&wanted) })
}

/// Lower case, letters and digits only, `+` as `plus`, without a leading `snapdragon`.
fn normalise(name: &str) -> String {
    let lower = name.to_lowercase().replace('+', "plus");
    let text: String = lower.chars().filter(|c| c.is_alphanumeric()).collect();
    match text.strip_prefix("snapdragon") {
        Some(rest) if !rest.is_empty() => rest.to_owned(),
        _ => text,
    }
}

fn similar(wanted: &str) -> Vec<String> {
    let mut scored: Vec<(f64, String)> = socs()
        .iter()
        .map(|soc| {
            let score = soc.keys().map(|k| strsim::jaro_winkler(&normalise(k), wanted)).fold(0.0, f64::max);
            (score, soc.name.to_lowercase())
        })
        .filter(|(score, _)| *score >= 0.88)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.into_iter().take(3).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        assert!(socs().len() > 60);
        for soc in socs() {
            assert!((68..=85).contains(&soc.arch), "{}", soc.name);
            assert!(soc.vtcm_mb > 0 && soc.hvx_threads > 0, "{}", soc.name);
            assert!(["library", "public", "number"].contains(&soc.source.as_str()), "{}", soc.name);
            assert_eq!(find_soc(&soc.name).unwrap().id, soc.id);
        }
    }

    #[test]
    fn no_name_means_two_chips() {
        let mut all: Vec<(String, u32)> = Vec::new();
        for soc in socs() {
            all.extend(soc.keys().map(|k| (normalise(k), soc.id)));
        }
        all.sort();
        for pair in all.windows(2) {
            assert_ne!(pair[0].0, pair[1].0);
        }
    }

    #[test]
    fn names() {
        for (name, id) in [
            ("sm8650", 57),
            ("SM8650", 57),
            ("SM8650-AC", 57),
            ("Snapdragon 8 Gen 3", 57),
            ("8gen3", 57),
            ("57", 57),
            ("soc114", 114),
            ("snapdragon-8+-gen-1", 42),
            ("qcs6490", 93),
            ("sa8295", 39),
            ("SA8295P", 39),
            ("x elite", 60),
            ("sm8350", 30),
        ] {
            assert_eq!(find_soc(name).map(|s| s.id), Ok(id), "{name}");
        }
    }

    #[test]
    fn typos_get_a_hint() {
        let error = find_soc("sm8560").unwrap_err();
        assert!(error.similar.iter().any(|s| s == "sm8550" || s == "sm8650"), "{error:?}");
        assert!(find_soc("").unwrap_err().similar.is_empty());
        assert_eq!(find_soc("snapdragon").unwrap_err().name, "snapdragon");
        assert_eq!(find_soc("99999999999999").unwrap_err().name, "99999999999999");
    }

    #[test]
    fn releases_know_their_chips() {
        assert!(find_soc("sm8750").unwrap().known_to("2.47"));
        assert!(!find_soc("sm7950").unwrap().known_to("2.47"));
        assert!(find_soc("sm7950").unwrap().known_to("2.51"));
        assert_eq!(find_soc("sm8650").unwrap().describe(), "SM8650 (Snapdragon 8 Gen 3, v75)");
    }
}
