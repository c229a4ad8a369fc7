package wire

import (
	"os"
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
