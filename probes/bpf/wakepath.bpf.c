// SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only
/* Wakepath's kernel vantage: tracepoints alone, no kprobe, no fentry (hardened kernels refuse them); and annotated
 * programs' own probes.
 *
 * Rules of this folder: the programs note what happened and nothing more. They never wait, never wake, never filter
 * by anything but the watched flag, and count every record that found no room. */
#include "kernel.h"
#include "wire.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

struct bpf_raw_tracepoint_args { u64 args[0]; };

#include "machine.h"
#include "flow_state.h"
#include "state.h"
#include "announce.h"
#include "flows.h"
#include "marks.h"
#include "identity.h"
#include "python.h"
#include "tokio.h"
#include "runtimes.h"
#include "runtime_probes.h"
#include "go_channels.h"
#include "go_streams.h"
#include "go_waits.h"
#include "heads.h"
#include "frames.h"
#include "tls.h"
#include "ring_calls.h"
#include "ops.h"
#include "tls_probes.h"
#include "transfers.h"
#include "selection.h"
#include "syscalls.h"
#include "calls.h"
#include "related.h"
#include "locks.h"
#include "files.h"
#include "interrupts.h"
#include "waits.h"
#include "switches.h"
#include "open_waits.h"
#include "tasks.h"
#include "faults.h"

/* The helpers used are for GPL-compatible programs alone. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";
