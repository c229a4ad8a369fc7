package wire

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

// residentBytes is what of the process lies in memory.
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

func TestReservedMemoryIsTakenAsItIsWritten(t *testing.T) {
	// else what earlier tests left is given back in between, and taken for ours
	debug.FreeOSMemory()
	before := residentBytes(t)
	buf, unreserve, err := reserve(frameBytesMax)
	if err != nil {
		t.Fatal(err)
	}
	buf[0], buf[frameBytesMax-1] = 1, 1
	if grown := residentBytes(t) - before; grown > 16<<20 {
		t.Errorf("two bytes written, %d taken", grown)
	}
	for at := 0; at < len(buf); at += 4096 {
		buf[at] = 1
	}
	if grown := residentBytes(t) - before; grown < 80<<20 {
		t.Errorf("all written, %d taken: this test sees nothing", grown)
	}
	unreserve()
	if grown := residentBytes(t) - before; grown > 16<<20 {
		t.Errorf("%d bytes still held", grown)
	}
}

// What outlives a request by mistake must not be somebody else's memory, and sees nothing of the
// request.
func TestReservedAddressesStayOursAndEmpty(t *testing.T) {
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
	again, unreserve, err := reserve(4 << 20) // of the same class
	if err != nil {
		t.Fatal(err)
	}
	defer unreserve()
	if &again[0] != &buf[0] || len(again) != 4<<20 || cap(again) != 4<<20 {
		t.Errorf("%d bytes elsewhere: ranges would pile up", len(again))
	}
	other, unreserveOther, err := reserve(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer unreserveOther()
	if &other[0] == &again[0] {
		t.Error("two requests have one memory")
	}
}

func TestEverySizeOfALargeFrameCanBeReserved(t *testing.T) {
	for _, n := range []int{1, largeBytes + 1, 2 << 20, 2<<20 + 1, 64 << 20, frameBytesMax} {
		buf, unreserve, err := reserve(n)
		if err != nil || len(buf) != n || cap(buf) != n {
			t.Fatalf("%d bytes: %d, %v", n, len(buf), err)
		}
		buf[n-1] = 1
		unreserve()
	}
}
