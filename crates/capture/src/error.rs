//! Why a vantage cannot be had.

/// Why a vantage cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// A right is missing.
    #[error("the kernel refused: {0}. Run as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE")]
    Denied(String),
    /// The kernel lacks something.
    #[error("this kernel lacks {0}; `wakepath doctor` tells what works without it")]
    Unsupported(String),
    /// Anything else from libbpf.
    #[error("loading the kernel programs failed: {0}")]
    Load(String),
    /// The library vantage's shared memory.
    #[error("{0}")]
    Arena(String),
    /// A setting that cannot be.
    #[error("{0}")]
    Setting(String),
    /// Packets cannot be captured, or no longer.
    #[error("{0}")]
    Packets(String),
    /// A filter for packets that cannot be.
    #[error("{0}")]
    Filter(String),
    /// A mirror cannot be made or undone.
    #[error("{0}")]
    Mirror(String),
}

impl CaptureError {
    /// Where nothing but a number of the kernel's is known, such as of one that is too old: who says more.
    pub(crate) fn unexplained(self) -> CaptureError {
        match self {
            CaptureError::Load(said) => {
                CaptureError::Load(format!("{said}; `wakepath doctor` tells what this kernel lacks"))
            }
            other => other,
        }
    }
}

impl From<libbpf_rs::Error> for CaptureError {
    fn from(e: libbpf_rs::Error) -> Self {
        match e.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => CaptureError::Denied(format!("{e:#}")),
            _ => CaptureError::Load(format!("{e:#}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CaptureError;

    #[test]
    fn a_mere_number_of_the_kernel_leads_to_the_doctor() {
        let too_old = CaptureError::from(libbpf_rs::Error::from_raw_os_error(7)).unexplained().to_string();
        assert!(too_old.contains("os error 7") && too_old.contains("`wakepath doctor`"), "{too_old}");
        let denied = CaptureError::from(libbpf_rs::Error::from_raw_os_error(1)).unexplained().to_string();
        assert!(denied.starts_with("the kernel refused") && !denied.contains("doctor"), "{denied}");
    }
}
