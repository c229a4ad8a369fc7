//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"testing"
)

const copied = "copied"

// transactions copies a topic in transactions that also commit the offsets of the input. Twice, it
// deletes the coordinator of a transaction and the leader of an output partition. Each record of
// the input must be in the output exactly once.
func (e *environment) transactions(t *testing.T) {
	answer := e.copying(t, func(t *testing.T) {
		for range 2 {
			coordinator := e.waitCopying(t).Coordinator
			t.Logf("delete broker %d, a transaction coordinator", coordinator)
			e.deleteBroker(t, coordinator)
			e.waitCopying(t)
			leader := e.partition(t, copied, 0).Leader
			t.Logf("delete broker %d, the leader of a partition of the output", leader)
			e.deleteBroker(t, leader)
		}
	})
	e.measured(t, "%d records copied in %d transactions, %d transactions aborted; %d ms at most "+
		"between two commits", answer.Held, answer.Committed, answer.Aborted, answer.CommitGap)
	if answer.Held < 2000 {
		t.Errorf("only %d records were copied", answer.Held)
	}
}

// copying starts an exactly-once copy of a topic under load, calls do while the copy runs, and then
// waits until all records are copied.
func (e *environment) copying(t *testing.T, do func(*testing.T)) stats {
	t.Helper()
	e.kubectl(t, "apply", "-f", "test/e2e/testdata/copied.yaml")
	e.atEnd(t, "delete", "topic", copied, "--ignore-not-found", "--timeout=120s")
	e.waitReady(t, 1, topics+1)
	e.mustCall(t, "POST", "copy", "topic", failover, "to", copied, "group", "e2e-copier",
		"instances", "3")
	e.underLoad(t, do)
	until(t, "all records copied", func(ctx context.Context) string {
		return e.notCopied(ctx, func(s stats) bool { return s.Behind == 0 })
	})
	answer := e.mustCall(t, "POST", "endCopy", "topic", failover)
	e.kubectl(t, "delete", "topic", copied, "--timeout=120s")
	return answer
}

// deleteBroker deletes a broker's pod, and waits until all replicas are in sync again.
func (e *environment) deleteBroker(t *testing.T, id int32) {
	t.Helper()
	e.kubectl(t, "delete", "pod", brokerPod(id), "--timeout=120s")
	e.waitReady(t, 1, topics+1)
	e.waitInSync(t)
}

// waitCopying waits until the copier has committed further transactions.
func (e *environment) waitCopying(t *testing.T) (now stats) {
	t.Helper()
	before := -1
	until(t, "copier commits transactions", func(ctx context.Context) string {
		return e.notCopied(ctx, func(s stats) bool {
			if before < 0 {
				before = s.Committed
			}
			now = s
			return s.Committed >= before+5
		})
	})
	return now
}

// notCopied returns "" if enough accepts the copier's state, and otherwise a description of the
// state.
func (e *environment) notCopied(ctx context.Context, enough func(stats) bool) string {
	answer, err := e.call(ctx, "GET", "copying", url.Values{"topic": {failover}})
	if err != nil || !enough(answer) {
		return fmt.Sprintf("%d transactions committed, %d aborted, %d records behind, %v",
			answer.Committed, answer.Aborted, answer.Behind, err)
	}
	return ""
}
