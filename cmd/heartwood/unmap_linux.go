package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unmapExecutable takes the clean pages of the process's own file out of its address space. They
// stay in the page cache, and those that are touched again are mapped again, sixteen at a time.
func unmapExecutable() error {
	executable, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	for _, m := range cleanMappings(smaps, executable) {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.begin, m.end-m.begin,
			unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("unmap %x to %x: %w", m.begin, m.end, errno)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ begin, end uintptr }

// cleanMappings are those of a file that the process can only read or execute, and whose pages are
// all the file's: none was written to before it was protected, as relocations are, or by a
// debugger. smaps is in the format of proc_pid_smaps(5).
func cleanMappings(smaps []byte, file string) []mapping {
	var found []mapping
	last := mapping{} // of the file, its pages not looked at yet
	for line := range bytes.Lines(smaps) {
		fields := strings.Fields(string(line))
		if addresses, perms, ok := header(fields); ok {
			last = mapping{}
			if len(fields) == 6 && fields[5] == file && !strings.Contains(perms, "w") {
				last = addresses
			}
			continue
		}
		if len(fields) == 3 && fields[0] == "Private_Dirty:" && fields[1] == "0" && last.end > 0 {
			found = append(found, last)
		}
	}
	return found
}

// header parses a mapping's first line: "00400000-01ae6000 r-xp 00000000 fe:00 1234
// /bin/heartwood".
func header(fields []string) (addresses mapping, perms string, ok bool) {
	if len(fields) < 5 {
		return mapping{}, "", false
	}
	from, to, ok := strings.Cut(fields[0], "-")
	begin, err1 := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	if !ok || err1 != nil || err2 != nil || begin >= end {
		return mapping{}, "", false
	}
	return mapping{uintptr(begin), uintptr(end)}, fields[1], true
}
