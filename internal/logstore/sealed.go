package logstore

import (
	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
)

// summarize describes the sealed segments and the leader epochs of a log. If a segment has no
// summary, the next start opens it by reading its files.
func summarize(handles []*segmentlist.Handle, epochs leaderepoch.Cache) checkpoint.ClosedLog {
	closed := checkpoint.ClosedLog{Epochs: checkpoint.SummarizeEpochs(epochs)}
	for _, h := range handles {
		if sum, ok, err := h.Summary(); ok && err == nil {
			closed.Segments = append(closed.Segments, sum)
		} else {
			closed.Ranges = append(closed.Ranges, checkpoint.Range{Base: h.Base(),
				Next: h.NextOffset()})
		}
	}
	return closed
}
