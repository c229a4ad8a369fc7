package wire

import (
	"math/bits"
	"sync"
)

// Buffers are pooled by size, in powers of two, up to the largest that is asked for: a frame that
// is not large, a step of a file.
const (
	bufferBitsMin = 9  // 512 bytes
	bufferBitsMax = 20 // largeBytes, stepBytes
)

// The pools hold *[]byte: a plain slice would be allocated anew each time it is put into an
// interface.
var bufferPools [bufferBitsMax - bufferBitsMin + 1]sync.Pool

// takeBuffer returns a buffer of n bytes; its content is whatever was there.
func takeBuffer(n int) []byte {
	class := bufferClass(n)
	if class >= len(bufferPools) {
		return make([]byte, n)
	}
	if pooled, ok := bufferPools[class].Get().(*[]byte); ok {
		return (*pooled)[:n]
	}
	return make([]byte, n, 1<<(class+bufferBitsMin))
}

// giveBuffer gives back what takeBuffer returned. Nobody may hold a slice of it any more.
func giveBuffer(buf []byte) {
	class := bufferClass(cap(buf))
	if class >= len(bufferPools) || cap(buf) != 1<<(class+bufferBitsMin) {
		return
	}
	bufferPools[class].Put(&buf)
}

// bufferClass returns the smallest class that holds n bytes.
func bufferClass(n int) int {
	return max(0, bits.Len(uint(max(1, n)-1))-bufferBitsMin)
}
