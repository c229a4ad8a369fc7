package logstore

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
)

// note adds the state of the partitions and their files to the history of the run if the flag
// -crash.trace is set.
func (w *workload) note(what string) {
	if !*crashTrace {
		return
	}
	for _, p := range w.models {
		line := fmt.Sprintf("  %s%s: model %d..%d synced %d cleanable %d", p.id, what, p.start,
			p.end(), p.synced, p.cleanable)
		if w.store != nil {
			if log := w.store.Log(p.id); log != nil {
				s := log.checkpointState()
				line += fmt.Sprintf("; log %d..%d hw %d recovery %d/%d dirty %d bases %v",
					log.LogStart(), log.LogEnd(), s.HighWatermark,
					s.RecoveryPoint, log.disk.CheckpointedLocked(), s.FirstDirty, bases(log))
			}
		}
		entries, _ := w.disk.mem.ReadDir(dataDir + "/" + p.id.String())
		for _, entry := range entries {
			if strings.Contains(entry.Name(), "index") {
				continue
			}
			info, _ := entry.Info()
			line += fmt.Sprintf(" %s:%d",
				strings.TrimLeft(strings.TrimSuffix(entry.Name(), "-checkpoint"), "0"), info.Size())
		}
		w.remember(line)
	}
	for _, name := range []string{checkpoint.RecoveryPointFile, checkpoint.LogStartFile,
		checkpoint.HighWatermarkFile,
		checkpoint.FirstDirtyFile} {
		content, _ := w.disk.mem.ReadFile(dataDir + "/" + name)
		w.remember("  " + name + ": " + strings.ReplaceAll(string(content), "\n", ", "))
	}
}

// remember adds a line to the history.
func (w *workload) remember(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, line)
}

// logger returns a logger that discards all messages, or adds them to the run's history if
// -crash.trace is set.
func (w *workload) logger() *slog.Logger {
	if !*crashTrace {
		return quiet()
	}
	return slog.New(slog.NewTextHandler(io.Writer(traceWriter{w}), nil))
}

// traceWriter adds log lines to the history of a workload.
type traceWriter struct{ w *workload }

func (t traceWriter) Write(line []byte) (int, error) {
	t.w.remember("  LOG " + strings.TrimSpace(string(line)))
	return len(line), nil
}
