//! The releases of the runtime that qnnc was tested with, pinned by hash.

/// The package on the Python package index that carries the runtime.
pub const PACKAGE: &str = "onnxruntime-qnn";
/// What `find` and `install` take when no version is asked for.
pub const DEFAULT_VERSION: &str = "2.47";
/// The vendor's licence inside the wheel; installing keeps a copy beside the libraries.
pub const LICENCE_FILE: &str = "onnxruntime_qnn/Qualcomm_LICENSE.pdf";

/// A wheel and what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// Version of QAIRT, major and minor.
    pub version: &'static str,
    /// Build id that its libraries carry.
    pub build_id: &'static str,
    pub package_version: &'static str,
    pub wheel_sha256: &'static str,
    /// Bytes of the wheel, and of what is kept of it.
    pub wheel_bytes: u64,
    pub unpacked_bytes: u64,
    /// Libraries of [`super::OPTIONAL`] that it carries.
    pub optional: &'static [&'static str],
}

/// The wheel differs per Python version only in its name; qnnc always takes the same one, so that one hash suffices.
pub(crate) const WHEEL_TAGS: [(&str, &str); 4] =
    [("python-version", "3.11"), ("implementation", "cp"), ("abi", "cp311"), ("platform", "manylinux_2_35_x86_64")];

pub const RELEASES: [Release; 2] = [
    Release {
        version: "2.47",
        build_id: "2.47.0.260601114230",
        package_version: "2.3.0",
        wheel_sha256: "087bb672ca0cabd3c7fed07084478fe78658cfa09fae1cb013099d7b2289dc72",
        wheel_bytes: 93_166_107,
        unpacked_bytes: 130_155_927,
        optional: &["libQnnCpu.so", "libQnnGpu.so"],
    },
    Release {
        version: "2.51",
        build_id: "2.51.0.260929181845",
        package_version: "2.7.0",
        wheel_sha256: "c56c01562b8534fe8980cfea4601408d950c065f8251fb862ce82101c52c9849",
        wheel_bytes: 98_578_793,
        unpacked_bytes: 130_746_630,
        optional: &["libQnnGpu.so"],
    },
];

/// The pinned release of a version such as `2.47`.
pub fn release(version: &str) -> Option<&'static Release> {
    RELEASES.iter().find(|r| r.version == version)
}

/// `2.47 or 2.51`.
pub(crate) fn versions() -> String {
    RELEASES.map(|r| r.version).join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_a_release() {
        assert!(release(DEFAULT_VERSION).is_some());
        assert!(release("1.0").is_none());
    }

    #[test]
    fn hashes_are_sha256() {
        for r in RELEASES {
            assert_eq!(r.wheel_sha256.len(), 64);
            assert!(r.build_id.starts_with(r.version));
        }
    }
}
