//! Runtimes that move requests between their threads, or have several on one, and whose logical tasks nobody reads yet: a
//! process of one is called by its name, so that nobody wonders why its requests stay open.

use crate::mapped::first_byte;
use crate::{Process, Runtime, Unread};

/// How one is recognised, and what it is called.
struct Untold {
    name: &'static str,
    tasks: &'static str,
    /// The beginning of the name of a file that it always has mapped: its library, or its program.
    file: &'static str,
    /// Its version, where the path or the name of that file says it.
    version: fn(&str) -> Option<&str>,
}

const UNTOLD: [Untold; 4] = [
    // …/shared/Microsoft.NETCore.App/8.0.11/libcoreclr.so
    Untold { name: ".NET", tasks: "async methods", file: "libcoreclr.so", version: |path| path.rsplit('/').nth(1) },
    // libruby-3.1.so.3.1.2
    Untold { name: "Ruby", tasks: "fibers", file: "libruby", version: |path| path.rsplit_once(".so.").map(|(_, v)| v) },
    // …/erts-13.1.5/bin/beam.smp
    Untold {
        name: "Erlang",
        tasks: "processes",
        file: "beam.smp",
        version: |path| path.rsplit('/').find_map(|part| part.strip_prefix("erts-")),
    },
    Untold { name: "Swoole", tasks: "coroutines", file: "swoole.so", version: |_| None },
];

pub(crate) fn recognise(process: &Process) -> Option<Runtime> {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.tgid)).ok()?;
    let (known, path) = maps.lines().filter_map(first_byte).find_map(|(_, path)| Some((named(path)?, path)))?;
    let version = (known.version)(path).filter(|v| v.starts_with(|c: char| c.is_ascii_digit()));
    Some(Runtime {
        name: known.name,
        tasks: known.tasks,
        version: version.unwrap_or_default().into(),
        asked_by: "",
        layout: Err(Unread::Untold),
    })
}

/// The runtime that a file is of.
fn named(path: &str) -> Option<&'static Untold> {
    let file = path.rsplit('/').next()?;
    UNTOLD.iter().find(|known| file.starts_with(known.file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_known_by_its_file_and_says_its_version() {
        let told = |path| named(path).map(|known| (known.name, (known.version)(path)));
        let coreclr = "/usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.11/libcoreclr.so";
        assert_eq!(told(coreclr), Some((".NET", Some("8.0.11"))));
        assert_eq!(told("/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1.2"), Some(("Ruby", Some("3.1.2"))));
        assert_eq!(told("/usr/lib/erlang/erts-13.1.5/bin/beam.smp"), Some(("Erlang", Some("13.1.5"))));
        assert_eq!(told("/usr/lib/php/20220829/swoole.so"), Some(("Swoole", None)));
        for other in
            ["/usr/lib/libcoreclrtraceptprovider", "/usr/lib/ruby/redis.so", "/libc.so.6", "/libruby.so.3/x", ""]
        {
            assert_eq!(told(other), None, "{other}");
        }
    }
}
