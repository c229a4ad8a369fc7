package clean

import (
	"context"
	"sync/atomic"
)

// throttleBytes is the number of bytes of I/O between two calls of Env.Throttle and Env.Report.
// Small batches therefore do not each cause a call.
const throttleBytes = 64 << 10

// ioMeter accounts for a pass's I/O: it counts bytes, throttles them, and reports progress. Its
// methods fail when the context of the pass has ended.
//
// Several hash slices may call sidecarRead concurrently; the other methods belong to the goroutine
// of Run.
type ioMeter struct {
	ctx      context.Context
	throttle func(ctx context.Context, n int) error
	report   func()
	stats    *Stats // LogReadBytes, LogWrittenBytes and SidecarWrittenBytes

	sidecarBytes atomic.Int64 // bytes read from sidecars
	readBytes    atomic.Int64 // bytes read in the stages so far, corrected at each stage's end
	stageBegin   int64        // readBytes at the current stage's start, and as planned at its end
	stageEnd     int64
	unthrottled  atomic.Int64 // bytes not passed to throttle yet
}

// begin begins a stage of the pass that is expected to read n bytes.
func (m *ioMeter) begin(n int64) {
	m.stageBegin = m.doneBytes()
	m.stageEnd = m.stageBegin + n
	m.readBytes.Store(m.stageBegin)
}

// end ends the stage. A stage may have read less than planned, because no stage reads a whole
// sidecar, or more, because it may read parts of a sidecar several times.
func (m *ioMeter) end() {
	m.stageBegin = m.stageEnd
	m.readBytes.Store(m.stageEnd)
}

// doneBytes returns PassProgress.DoneBytes. Until end is called, the result stays below the planned
// bytes, because a stage that reads more than planned must not seem to have ended.
func (m *ioMeter) doneBytes() int64 {
	return min(m.readBytes.Load(), max(m.stageBegin, m.stageEnd-1))
}

// add accounts for n bytes of I/O. It calls throttle each time throttleBytes have accumulated, so
// the last bytes of a pass may not be throttled.
func (m *ioMeter) add(n int) error {
	bytes := m.unthrottled.Add(int64(n))
	if bytes < throttleBytes || !m.unthrottled.CompareAndSwap(bytes, 0) {
		return m.ctx.Err()
	}
	m.report()
	if err := m.throttle(m.ctx, int(bytes)); err != nil {
		return err
	}
	return m.ctx.Err()
}

// sidecarRead accounts for n bytes that were read from a sidecar.
func (m *ioMeter) sidecarRead(n int) error {
	m.sidecarBytes.Add(int64(n))
	m.readBytes.Add(int64(n))
	return m.add(n)
}

// logRead accounts for n bytes that were read from a source. Progress counts only reads, because
// the size of the output is not known in advance.
func (m *ioMeter) logRead(n int) error {
	m.stats.LogReadBytes += int64(n)
	m.readBytes.Add(int64(n))
	return m.add(n)
}

// logWritten accounts for n bytes that were written to an output segment.
func (m *ioMeter) logWritten(n int) error {
	m.stats.LogWrittenBytes += int64(n)
	return m.add(n)
}

// sidecarWritten accounts for n bytes that were written to a sidecar, or read and written to sort
// its entries.
func (m *ioMeter) sidecarWritten(n int) error {
	m.stats.SidecarWrittenBytes += int64(n)
	return m.add(n)
}
