package wire

import (
	"math/bits"
	"sync"
	"syscall"
)

// reservedBitsMax is the log2 of the size of the largest range. A range of that size can hold a
// frame of frameBytesMax.
const reservedBitsMax = 27

// reserved contains the address ranges that no request currently uses: free[n] contains ranges of
// 1<<n bytes. A free range occupies no memory. The number of ranges never exceeds the maximum
// number of concurrent large requests so far, which the budget limits.
var reserved struct {
	sync.Mutex
	free [reservedBitsMax + 1][][]byte
}

// reserve returns n bytes of memory, at most frameBytesMax, and the function that releases them.
// The kernel commits the memory page by page when it is written. Go's allocator would clear the
// memory, and so commit all of it. A buffer that grows as bytes arrive would copy its content each
// time it grows.
//
// unreserve returns the pages to the kernel, but keeps the address range. Code that uses the range
// by mistake after the release reads zeros or another request, as with pooled buffers. If the range
// were unmapped, the Go heap could reuse its addresses, and such code could read any memory (ADR
// 0062).
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

// getReserved returns a free range of the class, or nil if there is none.
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

// putReserved returns the pages of a range to the kernel, and keeps the range as a free one. If the
// process has locked its memory (mlockall), the kernel does not take the pages back, so putReserved
// unmaps the range instead.
func putReserved(class int, whole []byte) {
	if syscall.Madvise(whole, syscall.MADV_DONTNEED) != nil {
		_ = syscall.Munmap(whole)
		return
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.free[class] = append(reserved.free[class], whole)
}
