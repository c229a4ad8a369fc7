package wire

import (
	"math/bits"
	"sync"
	"syscall"
)

// reservedBitsMax is the largest class of reserved memory, which holds a frame of frameBytesMax.
const reservedBitsMax = 27

// reserved keeps address ranges between requests, by size: free[n] are of 1<<n bytes. The number of
// kept ranges is the largest number of concurrent large requests so far, which the budget bounds.
// Kept ranges hold no memory.
var reserved struct {
	sync.Mutex
	free [reservedBitsMax + 1][][]byte
}

// reserve returns n bytes, up to frameBytesMax, of memory that the kernel commits page by page as
// the memory is written, and the function that releases it. Go's allocator would clear, and so
// commit, all the memory at once; a buffer that grows as bytes arrive would copy its content each
// time.
//
// The pages are returned and the addresses are kept: a use after the release reads zeros or another
// request, as with pooled buffers. If the range were unmapped, the Go heap could get those
// addresses, and such a bug could read any memory (ADR 0062).
func reserve(n int) (buf []byte, unreserve func(), err error) {
	class := bits.Len(uint(max(1, n) - 1))
	whole := getReserved(class)
	if whole == nil {
		whole, err = syscall.Mmap(-1, 0, 1<<class, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
		if err != nil {
			return nil, nil, err
		}
	}
	return whole[:n:n], func() { putReserved(class, whole) }, nil
}

// getReserved returns a free range, or nil if there is none.
func getReserved(class int) []byte {
	reserved.Lock()
	defer reserved.Unlock()
	free := reserved.free[class]
	if len(free) == 0 {
		return nil
	}
	whole := free[len(free)-1]
	reserved.free[class] = free[:len(free)-1]
	return whole
}

// putReserved returns the pages to the kernel and keeps the range. If the memory of the process is
// locked, the kernel keeps the pages, and the range is unmapped instead.
func putReserved(class int, whole []byte) {
	if syscall.Madvise(whole, syscall.MADV_DONTNEED) != nil {
		_ = syscall.Munmap(whole)
		return
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.free[class] = append(reserved.free[class], whole)
}
