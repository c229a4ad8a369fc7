package wire

import (
	"math/bits"
	"sync"
)

// Buffers are pooled by size, in powers of two, up to the largest that is requested: a frame that
// is not large, or one step of a file.
const (
	bufferBitsMin = 9  // 512 bytes
	bufferBitsMax = 20 // largeBytes, stepBytes
)

// The pools hold *[]byte: converting a slice to an interface would allocate on every Put.
var bufferPools [bufferBitsMax - bufferBitsMin + 1]sync.Pool

// getBuffer returns a buffer of n bytes with undefined content.
func getBuffer(n int) []byte {
	class := bufferClass(n)
	if class >= len(bufferPools) {
		return make([]byte, n)
	}
	if pooled, ok := bufferPools[class].Get().(*[]byte); ok {
		return (*pooled)[:n]
	}
	return make([]byte, n, 1<<(class+bufferBitsMin))
}

// putBuffer returns a buffer of getBuffer to its pool. The caller must hold no slice of it.
func putBuffer(buf []byte) {
	class := bufferClass(cap(buf))
	if class >= len(bufferPools) || cap(buf) != 1<<(class+bufferBitsMin) {
		return
	}
	bufferPools[class].Put(&buf)
}

// bufferClass returns the smallest class whose buffers hold n bytes.
func bufferClass(n int) int {
	return max(0, bits.Len(uint(max(1, n)-1))-bufferBitsMin)
}
