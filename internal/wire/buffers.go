package wire

import (
	"math/bits"
	"sync"
)

// There is one pool of buffers for each power of two, from 1<<bufferBitsMin to 1<<bufferBitsMax
// bytes. The largest buffers are sufficient for a frame of largeBytes and for one step of sending a
// file.
const (
	bufferBitsMin = 9  // 512 bytes, the smallest buffers
	bufferBitsMax = 20 // largeBytes, stepBytes
)

// bufferPools contains values of type *[]byte, because converting a slice to an interface would
// allocate on every Put.
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

// putBuffer puts a buffer from getBuffer back into its pool. The caller must not use the buffer
// afterwards.
func putBuffer(buf []byte) {
	class := bufferClass(cap(buf))
	if class >= len(bufferPools) || cap(buf) != 1<<(class+bufferBitsMin) {
		return
	}
	bufferPools[class].Put(&buf)
}

// bufferClass returns the index in bufferPools of the smallest buffers that have at least n bytes.
func bufferClass(n int) int {
	return max(0, bits.Len(uint(max(1, n)-1))-bufferBitsMin)
}
