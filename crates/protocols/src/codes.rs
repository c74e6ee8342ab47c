//! Names of numbers: gRPC's status, HTTP/2's error codes.

/// The name of a gRPC status (grpc.io, "Status codes and their use in gRPC").
pub(crate) fn grpc(code: u16) -> &'static str {
    #[rustfmt::skip]
    const NAMES: [&str; 17] = [
        "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
        "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
        "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
    ];
    NAMES.get(usize::from(code)).copied().unwrap_or("OTHER")
}

/// The name of an error code (RFC 9113, 7).
pub(crate) fn error(code: u32) -> &'static str {
    #[rustfmt::skip]
    const NAMES: [&str; 14] = [
        "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
        "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
    ];
    NAMES.get(code as usize).copied().unwrap_or("OTHER")
}
