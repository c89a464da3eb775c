//! The DDR summary that HTP preparation prints.

use crate::qnn::protocol::DdrBytes;

/// Reads the last summary in `text`: lines such as `spill_bytes=0` after the heading. `None` when there is none.
pub fn parse(text: &str) -> Option<DdrBytes> {
    let (_, summary) = text.rsplit_once("DDR bandwidth summary")?;
    let value = |key: &str| -> Option<u64> {
        let (_, rest) = summary.split_once(key)?;
        let rest = rest.trim_start_matches([' ', '=', ':']);
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    };
    Some(DdrBytes {
        spill: value("spill_bytes")?,
        fill: value("fill_bytes")?,
        write_total: value("write_total_bytes")?,
        read_total: value("read_total_bytes")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries() {
        let text = "Starting stage: x\n====== DDR bandwidth summary ======\nspill_bytes=1\nfill_bytes=2\n\
                    write_total_bytes=4096\nread_total_bytes=12288\n\nCompleted stage: x (9 us)\n";
        let expected = DdrBytes { spill: 1, fill: 2, write_total: 4096, read_total: 12288 };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(parse(&format!("{}{text}", text.replace("=1\n", "=77\n"))), Some(expected));
        assert_eq!(parse("nothing"), None);
        assert_eq!(parse("DDR bandwidth summary\nspill_bytes=x"), None);
    }
}
