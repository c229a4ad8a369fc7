package purgatory

import (
	"bytes"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"syscall"
	"time"
)

// usage is the process's resource usage.
type usage struct {
	cpu      time.Duration // user and system
	gcPauses time.Duration // stop-the-world pauses
}

func usageNow() (usage, error) {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return usage{}, os.NewSyscallError("getrusage", err)
	}
	var gc debug.GCStats
	debug.ReadGCStats(&gc)
	return usage{cpu: time.Duration(own.Utime.Nano() + own.Stime.Nano()), gcPauses: gc.PauseTotal},
		nil
}

// since returns the usage after the earlier measurement before.
func (u usage) since(before usage) usage {
	return usage{cpu: u.cpu - before.cpu, gcPauses: u.gcPauses - before.gcPauses}
}

// peakMemory returns the largest resident set of the process so far, in bytes. It does not use
// getrusage, which may return the value of the parent process. Without /proc it returns the memory
// that the Go runtime has mapped, which is slightly more.
func peakMemory() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		if _, line, found := bytes.Cut(status, []byte("VmHWM:")); found {
			if fields := bytes.Fields(line); len(fields) > 0 {
				if kilobytes, err := strconv.ParseInt(string(fields[0]), 10, 64); err == nil {
					return kilobytes << 10
				}
			}
		}
	}
	total := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(total)
	return int64(total[0].Value.Uint64())
}
