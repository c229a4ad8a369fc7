package cleaner

import (
	"strings"
	"testing"
)

// TestI29LastRecordOfAnIdleLogRemains checks that the last record of an idle log remains, whatever
// kind of record it is, after passes of every trigger and after restarts. It is removed within one
// retention after the next append.
func TestI29LastRecordOfAnIdleLogRemains(t *testing.T) {
	for name, script := range map[string][]string{
		"tombstone":     {"put a=1 b=1", "put a"},
		"without a key": {"config policy=delete", "put b=1", "put =x", "config policy=compact"},
		"marker":        {"put b=1", "put -producer=1 -txn a=1", "abort 1"},
		"commit marker": {"put b=1", "put -producer=1 -txn a", "commit 1"},
	} {
		t.Run(name, func(t *testing.T) {
			script := append([]string{"config retention=10s dirty=0 garbage=0"}, script...)
			script = append(script, "roll", "wait 60s quietly", "log", "restart", "wait 60s quietly",
				"kill", "wait 60s quietly", "log", "put c=1", "roll", "wait 100s quietly", "log")
			logs := strings.Split(output(t, script...), "active")
			idle, restarted, appended := logs[0], logs[1], logs[2]
			if !strings.Contains(restarted, strings.TrimPrefix(idle, "segment 0: ")) {
				t.Errorf("the idle log is\n%s\nand later\n%s", idle, restarted)
			}
			last := idle[strings.LastIndex(idle, "|")+1:]
			// The marker has to remain as long as its producer's empty batch.
			removed := strings.Contains(idle, "empty") ||
				!strings.Contains(appended, strings.TrimSpace(last))
			if strings.Contains(last, "empty") || !removed {
				t.Errorf("the last record of the idle log is %s, and after an append\n%s", last,
					appended)
			}
		})
	}
}
