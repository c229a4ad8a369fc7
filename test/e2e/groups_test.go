//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"testing"
)

// groups has a consumer group read what is written, while the brokers go one after the other, its
// coordinator among them: it misses nothing, and who comes after it goes on where it left.
func (w *world) groups(t *testing.T) {
	for _, protocol := range []struct{ name, group, next string }{
		{"the classic protocol", "e2e-classic", ""},
		{"the protocol of KIP-848", "e2e-next", "1"},
	} {
		t.Run(protocol.name, func(t *testing.T) {
			w.mustAsk(t, "POST", "join", "topic", failover, "group", protocol.group, "next",
				protocol.next)
			w.underLoad(t, func(t *testing.T) {
				for id := range int32(brokerCount) {
					w.kubectl(t, "delete", "pod", brokerPod(id), "--timeout=120s")
					w.waitReady(t, 1, topics)
					w.waitInSync(t)
				}
			})
			w.waitConsumed(t)
			left := w.mustAsk(t, "POST", "leave", "topic", failover)
			t.Logf("MEASURED %s: %d records consumed, %d of them again", protocol.name,
				left.Consumed, left.Again)
			// Who comes now has what is written from now on, and nothing of before.
			w.mustAsk(t, "POST", "join", "topic", failover, "group", protocol.group, "next",
				protocol.next)
			w.mustAsk(t, "POST", "produce", "topic", failover, "keys", "100", "rounds", "3")
			until(t, "the next member has what is new", func(ctx context.Context) string {
				answer, err := w.ask(ctx, "GET", "group", url.Values{"topic": {failover}})
				if err != nil || answer.Consumed < 300 {
					return fmt.Sprintf("%d records, %v", answer.Consumed, err)
				}
				return ""
			})
			if again := w.mustAsk(t, "POST", "leave", "topic", failover); again.Consumed != 300 {
				t.Errorf("%d records were consumed of 300 that were written since the group left",
					again.Consumed)
			}
		})
	}
}

// waitConsumed waits until the group had every acknowledged record.
func (w *world) waitConsumed(t *testing.T) {
	t.Helper()
	until(t, "the group had every acknowledged record", func(ctx context.Context) string {
		answer, err := w.ask(ctx, "GET", "group", url.Values{"topic": {failover}})
		if err != nil || answer.Consumed < answer.Acknowledged {
			return fmt.Sprintf("%d of %d, %v", answer.Consumed, answer.Acknowledged, err)
		}
		return ""
	})
}
