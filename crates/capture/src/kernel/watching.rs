//! Whom the programs watch: processes by number, and the rules that take in more.

use super::{KernelOptions, Watch, skel};
use crate::error::CaptureError;
use libbpf_rs::{MapCore as _, MapFlags};
use wakepath_wire as w;

/// Tells the programs whom to watch.
pub(super) fn watch(skel: &skel::WakepathSkel<'_>, options: &KernelOptions) -> Result<(), CaptureError> {
    if let Watch::Processes(list) = &options.watch {
        for tgid in list {
            skel.maps.watch_tgids.update(&tgid.to_ne_bytes(), &[1], MapFlags::ANY)?;
        }
    }
    let rules = &options.rules;
    for name in &rules.comms {
        // the kernel cuts names so, and ends them with a zero
        skel.maps.watch_comms.update(&zero_padded::<16>(name.as_bytes()), &[1], MapFlags::ANY)?;
    }
    for port in &rules.ports {
        skel.maps.watch_ports.update(&port.to_ne_bytes(), &[1], MapFlags::ANY)?;
    }
    for path in &rules.cgroups {
        let path = path.trim_end_matches('/');
        if path.len() >= w::CGROUP_PATH_BYTES as usize {
            return Err(CaptureError::Setting(format!(
                "a cgroup's path of {} bytes: at most {} are compared; name one above it",
                path.len(),
                w::CGROUP_PATH_BYTES - 1
            )));
        }
        let path = zero_padded::<{ w::CGROUP_PATH_BYTES as usize }>(path.as_bytes());
        skel.maps.watch_cgroups.update(&path, &[1], MapFlags::ANY)?;
    }
    Ok(())
}

/// The first bytes of a text in `N` bytes, the last of which is zero.
fn zero_padded<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut out = [0u8; N];
    out.iter_mut().zip(text.iter().take(N - 1)).for_each(|(to, from)| *to = *from);
    out
}
