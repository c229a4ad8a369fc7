package passlog

import "heartwood.dev/heartwood/api/report"

// Totals returns the sums of all passes over a log that have ended.
func (l *Log) Totals(key Key) Totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.totals[key]
}

// addToTotals adds a pass that has ended to its log's totals. The caller holds l.writing, which
// keeps a log's lines in the order of its totals.
func (l *Log) addToTotals(key Key, ended report.Pass) {
	l.mu.Lock()
	sum := l.mu.totals[key].with(ended)
	l.mu.totals[key] = sum
	l.mu.Unlock()
	l.writeTotals([]totalsLine{{TopicID: key.TopicID, Partition: key.Partition, Totals: &sum}})
}

// Remove discards the totals of logs that were removed from this broker. If such a replica returns,
// its log is a new copy, which was never cleaned on this broker.
func (l *Log) Remove(logs []Key) {
	l.writing.Lock()
	defer l.writing.Unlock()
	var lines []totalsLine
	l.mu.Lock()
	for _, key := range logs {
		if _, known := l.mu.totals[key]; known {
			delete(l.mu.totals, key)
			lines = append(lines, totalsLine{TopicID: key.TopicID, Partition: key.Partition,
				Removed: true})
		}
	}
	l.mu.Unlock()
	if len(lines) > 0 {
		l.writeTotals(lines)
	}
}

// writeTotals writes lines to the totals file. The caller holds l.writing.
func (l *Log) writeTotals(lines []totalsLine) {
	if l.opts.FS == nil {
		return
	}
	l.mu.Lock()
	logs := len(l.mu.totals)
	l.mu.Unlock()
	l.totalsFile.write(lines, logs, l.currentTotals)
}

// currentTotals discards the totals of logs that no longer exist, and returns the other totals.
// Totals of such logs remain after a crash between the removal of a log and the call of Remove.
func (l *Log) currentTotals() []totalsLine {
	var existing map[Key]bool
	if l.opts.Logs != nil {
		existing = l.opts.Logs()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := make([]totalsLine, 0, len(l.mu.totals))
	for key, sum := range l.mu.totals {
		if existing != nil && !existing[key] {
			delete(l.mu.totals, key)
			continue
		}
		lines = append(lines, totalsLine{TopicID: key.TopicID, Partition: key.Partition,
			Totals: &sum})
	}
	return lines
}
