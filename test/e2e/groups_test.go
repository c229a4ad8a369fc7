//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"testing"
)

// groups reads a topic in a consumer group while all brokers, including the group's coordinator,
// are deleted one after the other. The group must read every record, and a later member must
// continue from the committed offsets.
func (e *environment) groups(t *testing.T) {
	for _, protocol := range []struct{ name, group, next string }{
		{"classic protocol", "e2e-classic", ""},
		{"consumer protocol", "e2e-next", "1"},
	} {
		t.Run(protocol.name, func(t *testing.T) {
			e.join(t, protocol.group, protocol.next)
			e.underLoad(t, func(t *testing.T) {
				for id := range int32(brokerCount) {
					e.kubectl(t, "delete", "pod", brokerPod(id), "--timeout=120s")
					e.waitReady(t, 1, topics)
					e.waitInSync(t)
				}
			})
			e.waitConsumed(t)
			left := e.mustCall(t, "POST", "leave", "topic", failover)
			e.measured(t, "%s: %d records consumed, %d of them more than once", protocol.name,
				left.Consumed, left.Duplicates)
			// A new member must receive the records that are written after it has joined, and no earlier
			// records.
			e.join(t, protocol.group, protocol.next)
			e.mustCall(t, "POST", "produce", "topic", failover, "keys", "100", "rounds", "3")
			until(t, "next member received the new records", func(ctx context.Context) string {
				answer, err := e.call(ctx, "GET", "group", url.Values{"topic": {failover}})
				if err != nil || answer.Consumed < 300 {
					return fmt.Sprintf("%d records, %v", answer.Consumed, err)
				}
				return ""
			})
			if again := e.mustCall(t, "POST", "leave", "topic", failover); again.Consumed != 300 {
				t.Errorf("%d records consumed; 300 were written since the previous member left",
					again.Consumed)
			}
		})
	}
}

// waitConsumed waits until the group has consumed every acknowledged record.
func (e *environment) waitConsumed(t *testing.T) {
	t.Helper()
	until(t, "group consumed every acknowledged record", func(ctx context.Context) string {
		answer, err := e.call(ctx, "GET", "group", url.Values{"topic": {failover}})
		if err != nil || answer.Consumed < answer.Acknowledged {
			return fmt.Sprintf("%d of %d, %v", answer.Consumed, answer.Acknowledged, err)
		}
		return ""
	})
}

// join makes the client consume the load's topic in a group, with the consumer protocol if next is
// not empty. If a test fails before the client leaves, the client leaves at the end of the test,
// because otherwise the next test could not join.
func (e *environment) join(t *testing.T, group, next string) {
	t.Helper()
	e.mustCall(t, "POST", "join", "topic", failover, "group", group, "next", next)
	t.Cleanup(func() { // fails if the client has already left
		_, _ = e.call(context.WithoutCancel(t.Context()), "POST", "leave",
			url.Values{"topic": {failover}})
	})
}
