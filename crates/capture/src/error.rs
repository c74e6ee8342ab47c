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

impl From<libbpf_rs::Error> for CaptureError {
    fn from(e: libbpf_rs::Error) -> Self {
        match e.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => CaptureError::Denied(format!("{e:#}")),
            _ => CaptureError::Load(format!("{e:#}")),
        }
    }
}
