package wire

import (
	"math/bits"
	"sync"
	"syscall"
)

// reservedBitsMax is the largest class of reserved memory, in which a frame of frameBytesMax has
// room.
const reservedBitsMax = 27

// reserved keeps address ranges between requests, by size: free[n] are of 1<<n bytes. Together they
// are as many as there were large requests at once, which the budget bounds; they hold no memory.
var reserved struct {
	sync.Mutex
	free [reservedBitsMax + 1][][]byte
}

// reserve returns n bytes, up to frameBytesMax, of memory that the kernel gives page by page, as
// they are written, and how to give it all back. Go's own allocator would clear them first, and so
// take them all; a buffer that grows as bytes come would copy what it has each time.
//
// Memory is given back, addresses are not: what of a request outlives it by mistake reads zeros or
// another request, as with the pooled buffers of small ones. Were they unmapped, they could be the
// Go heap's next, and such a mistake anybody's (docs/adr/0062).
func reserve(n int) (buf []byte, unreserve func(), err error) {
	class := bits.Len(uint(max(1, n) - 1))
	whole := takeReserved(class)
	if whole == nil {
		whole, err = syscall.Mmap(-1, 0, 1<<class, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
		if err != nil {
			return nil, nil, err
		}
	}
	return whole[:n:n], func() { giveReserved(class, whole) }, nil
}

// takeReserved returns a range that was used before, nil if none is free.
func takeReserved(class int) []byte {
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

// giveReserved gives the pages back to the kernel, and keeps the range. Of a process whose memory
// is locked the kernel takes no pages back this way: it has to be unmapped.
func giveReserved(class int, whole []byte) {
	if syscall.Madvise(whole, syscall.MADV_DONTNEED) != nil {
		_ = syscall.Munmap(whole)
		return
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.free[class] = append(reserved.free[class], whole)
}
