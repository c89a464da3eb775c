//! `placement.json`.

use super::{Placement, SCHEMA};

/// The report as indented JSON with a newline at the end.
pub fn render(report: &Placement) -> String {
    let mut text = serde_json::to_string_pretty(report).unwrap_or_default();
    text.push('\n');
    text
}

/// Why a saved report cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    #[error("not a placement report: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the report has schema {found}; this qnnc reads schema {SCHEMA}")]
    Schema { found: u64 },
}

/// Reads a report that [`render`] wrote.
pub fn parse(text: &str) -> Result<Placement, ParseError> {
    let value: serde_json::Value = serde_json::from_str(text)?;
    if let Some(found) = value.get("schema").and_then(serde_json::Value::as_u64)
        && found != u64::from(SCHEMA)
    {
        return Err(ParseError::Schema { found });
    }
    Ok(serde_json::from_value(value)?)
}

#[cfg(test)]
mod tests {
    use super::super::{golden, sample};
    use super::*;

    #[test]
    fn golden_json() {
        golden("src/report/golden/split.json", &render(&sample::split()));
    }

    #[test]
    fn a_saved_report_reads_back_equal() {
        let report = sample::split();
        assert_eq!(parse(&render(&report)).unwrap(), report);
    }

    #[test]
    fn other_schemas_and_other_json_are_refused() {
        assert!(matches!(parse(r#"{"schema": 99}"#), Err(ParseError::Schema { found: 99 })));
        assert!(matches!(parse("[1]"), Err(ParseError::Json(_))));
    }
}
