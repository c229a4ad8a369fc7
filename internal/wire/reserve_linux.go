package wire

import "syscall"

// reserve returns n bytes of memory that the kernel gives page by page, as they are written, and how to give it all back. Go's own
// allocator would clear them first, and so take them all; a buffer that grows as bytes come would copy what it has each time.
//
// A slice of it that outlives the release is a fault of the process, where one of a pooled buffer would read another's bytes.
func reserve(n int) (buf []byte, unreserve func(), err error) {
	buf, err = syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, nil, err
	}
	return buf, func() { _ = syscall.Munmap(buf) }, nil // it fails only for what is not mapped
}
