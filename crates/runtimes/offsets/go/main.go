// Prints where this Go version keeps the identity of goroutines, and its numbers for what they wait for, from this program's own debug information.
package main

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
)

func main() {
	file, err := elf.Open("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	info, err := file.DWARF()
	if err != nil {
		panic(err)
	}
	// a client must be there to be described
	http.DefaultClient.CloseIdleConnections()
	wanted := map[string]bool{"runtime.g": true, "runtime.m": true, "runtime.hchan": true, "runtime.sudog": true,
		"runtime.maybeTraceablePtr": true,
		"net/http.persistConn":      true}
	found := map[string]int64{}
	for entries := info.Reader(); ; {
		entry, err := entries.Next()
		if err != nil || entry == nil {
			break
		}
		name, _ := entry.Val(dwarf.AttrName).(string)
		if entry.Tag == dwarf.TagConstant && strings.HasPrefix(name, "runtime.waitReason") {
			found[name], _ = entry.Val(dwarf.AttrConstValue).(int64)
		}
		if entry.Tag != dwarf.TagStructType || !wanted[name] {
			continue
		}
		kind, err := info.Type(entry.Offset)
		if err != nil {
			panic(err)
		}
		for _, field := range kind.(*dwarf.StructType).Field {
			found[name+"."+field.Name] = field.ByteOffset
		}
	}
	// since Go 1.26 the address stands twice, and only the second is always there
	found["runtime.sudog.elem"] += found["runtime.maybeTraceablePtr.vu"]
	// by its state the kernel programs tell a goroutine's number (probes/bpf/runtimes.h)
	if found["runtime.g.atomicstatus"]+8 != found["runtime.g.goid"] {
		panic("a goroutine's state is not directly before its number")
	}
	version := strings.TrimPrefix(runtime.Version(), "go")
	minor := strings.Join(strings.SplitN(version, ".", 3)[:2], ".")
	fmt.Fprintf(os.Stdout, "%s", minor)
	fields := []string{"runtime.g.m", "runtime.m.g0", "runtime.m.curg", "runtime.m.procid", "runtime.g.goid",
		"runtime.g.parentGoid", "runtime.g.sched", "net/http.persistConn.writech", "runtime.hchan.recvq", "runtime.sudog.g",
		"runtime.hchan.dataqsiz", "runtime.hchan.buf", "runtime.hchan.elemtype", "runtime.hchan.recvx", "runtime.sudog.next",
		"runtime.sudog.elem",
		"runtime.waitReasonSelect", "runtime.waitReasonChanReceive", "runtime.waitReasonChanSend", "runtime.waitReasonSleep",
		"runtime.waitReasonSyncCondWait", "runtime.waitReasonSyncMutexLock", "runtime.waitReasonSyncRWMutexRLock",
		"runtime.waitReasonSyncRWMutexLock"}
	// before Go 1.21, a goroutine does not remember which one made it; up to 1.19, a lock is no reason of its own
	added := map[string]bool{"runtime.g.parentGoid": true, "runtime.waitReasonSyncMutexLock": true,
		"runtime.waitReasonSyncRWMutexRLock": true, "runtime.waitReasonSyncRWMutexLock": true}
	for _, field := range fields {
		offset, known := found[field]
		if !known && (!added[field] || minor > "1.20") {
			panic("nothing is called " + field)
		}
		fmt.Fprintf(os.Stdout, ",%d", offset)
	}
	fmt.Fprintf(os.Stdout, ",%s\n", version)
}
