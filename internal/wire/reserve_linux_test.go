package wire

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

// residentBytes returns the resident set size of the process.
func residentBytes(t *testing.T) int {
	t.Helper()
	content, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(content))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

func TestReservedMemoryIsCommittedAsItIsWritten(t *testing.T) {
	// Free the memory of earlier tests now. If it were freed during the test, the measured difference
	// would be too small.
	debug.FreeOSMemory()
	before := residentBytes(t)
	buf, unreserve, err := reserve(frameBytesMax)
	if err != nil {
		t.Fatal(err)
	}
	buf[0], buf[frameBytesMax-1] = 1, 1
	if grown := residentBytes(t) - before; grown > 16<<20 {
		t.Errorf("after writing two bytes: got %d committed bytes, want at most 16 MiB", grown)
	}
	for index := 0; index < len(buf); index += 4096 {
		buf[index] = 1
	}
	if grown := residentBytes(t) - before; grown < 80<<20 {
		t.Errorf("after writing all bytes: got %d committed bytes, want at least 80 MiB", grown)
	}
	unreserve()
	if grown := residentBytes(t) - before; grown > 16<<20 {
		t.Errorf("after the release: got %d committed bytes, want at most 16 MiB", grown)
	}
}

// TestReleasedReservationReadsZeros checks that a slice that is used by mistake after its range has
// been released contains zeros, that ranges are reused, and that two requests never share a range.
func TestReleasedReservationReadsZeros(t *testing.T) {
	buf, unreserve, err := reserve(3 << 20)
	if err != nil {
		t.Fatal(err)
	}
	copy(buf[2<<20:], "secret")
	stale := buf[2<<20:][:6]
	unreserve()
	if got := string(stale); got != "\x00\x00\x00\x00\x00\x00" {
		t.Errorf("a slice that outlived its request reads %q", got)
	}
	again, unreserve, err := reserve(4 << 20) // has the same class as buf
	if err != nil {
		t.Fatal(err)
	}
	defer unreserve()
	if &again[0] != &buf[0] || len(again) != 4<<20 || cap(again) != 4<<20 {
		t.Errorf("%d bytes at another address: ranges are not reused", len(again))
	}
	other, unreserveOther, err := reserve(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer unreserveOther()
	if &other[0] == &again[0] {
		t.Error("two requests share memory")
	}
}

func TestReserveOfEveryFrameSize(t *testing.T) {
	for _, n := range []int{1, largeBytes + 1, 2 << 20, 2<<20 + 1, 64 << 20, frameBytesMax} {
		buf, unreserve, err := reserve(n)
		if err != nil || len(buf) != n || cap(buf) != n {
			t.Fatalf("reserve(%d) returned %d bytes, error %v", n, len(buf), err)
		}
		buf[n-1] = 1
		unreserve()
	}
}
