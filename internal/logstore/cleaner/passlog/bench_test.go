package passlog

import (
	"testing"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore/clean"
)

// BenchmarkStep measures a step of kind read in a long pass without a viewer. A pass has one such
// step for each 64 KiB of a rewritten segment.
func BenchmarkStep(b *testing.B) {
	pass := Open(Options{}).Begin("topic", keyOf("topic"), report.TriggerDirtyRatio, start)
	position := int64(0)
	for b.Loop() {
		position += readStride
		pass.Step(clean.Step{Kind: clean.StepRead, Position: position}, time.Now())
	}
}
