package main

import (
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

const smapsExample = `00400000-01ae6000 r-xp 00000000 fe:00 1234                               /bin/heartwood
Size:              23448 kB
Private_Clean:      4092 kB
Private_Dirty:         0 kB
01ae6000-03240000 r--p 016e6000 fe:00 1234                               /bin/heartwood
Private_Dirty:         4 kB
03240000-032f8000 rw-p 02e40000 fe:00 1234                               /bin/heartwood
Private_Dirty:         0 kB
032f8000-03300000 r--p 02f00000 fe:00 1234                               /bin/heartwood
Private_Dirty:         0 kB
c000000000-c000400000 rw-p 00000000 00:00 0 
Private_Dirty:         0 kB
7f0000000000-7f0000001000 r--p 00000000 fe:00 99                         /lib/other
Private_Dirty:         0 kB
7ffd0000-7ffd2000 r-xp 00000000 00:00 0                                  [vdso]
Private_Dirty:         0 kB
`

func TestCleanMappingsAreTheFilesOwnAndUntouched(t *testing.T) {
	got := cleanMappings([]byte(smapsExample), "/bin/heartwood")
	want := []mapping{{0x400000, 0x1ae6000}, {0x32f8000, 0x3300000}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

func TestCleanMappingsOfRubbish(t *testing.T) {
	for _, smaps := range []string{
		"", "\n\n", "Private_Dirty: 0 kB\n", "zz-yy r--p 0 0 0 /f\nPrivate_Dirty: 0 kB\n",
		"2000-1000 r--p 0 0 0 /f\nPrivate_Dirty: 0 kB\n",
		"1000-2000 r--p 0 0 0 /f (deleted)\nPrivate_Dirty: 0 kB\n", "1000-2000 r--p\n",
		"1000-2000 r--p 0 0 0 /f\nPrivate_Dirty:\n",
	} {
		if got := cleanMappings([]byte(smaps), "/f"); len(got) != 0 {
			t.Errorf("%q: %x", smaps, got)
		}
	}
}

// TestUnmapExecutable in a process of its own, which goes on and is smaller.
func TestUnmapExecutable(t *testing.T) {
	if os.Getenv("HEARTWOOD_TEST_UNMAP") == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestUnmapExecutable$",
			"-test.v")
		cmd.Env = append(os.Environ(), "HEARTWOOD_TEST_UNMAP=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	before := residentFileKiB(t)
	if err := unmapExecutable(); err != nil {
		t.Fatal(err)
	}
	if after := residentFileKiB(t); after >= before {
		t.Errorf("%d KiB of files are resident, %d before", after, before)
	}
}

func residentFileKiB(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		t.Skip("the kernel does not tell RssFile")
	}
	kib, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib
}
