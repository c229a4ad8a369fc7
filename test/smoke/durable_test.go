package smoke

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ledger"
	"heartwood.dev/heartwood/test/kit/ports"
	"heartwood.dev/heartwood/test/kit/process"
	"heartwood.dev/heartwood/test/kit/traffic"
)

// TestKillLosesNothingAcknowledged kills the process with SIGKILL while a producer sends records.
// After a restart, all acknowledged records must be present, and the same producer must continue
// with its producer id and sequence numbers.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 1, cluster, tickets)
	p := process.Start(t, s.Args()...)
	bootstrap, _ := p.Ready(t)
	client, book := producer(t, bootstrap), ledger.New()
	load := traffic.Updates{Topic: "tickets", Keys: 500, Rounds: 1, Seed: 3}

	for round := range 3 {
		load.Seed++
		ctx, cancel := context.WithCancel(t.Context())
		streamed := make(chan int64)
		go func() { streamed <- traffic.Stream(ctx, client, book, load) }()
		before := book.Count()
		await.For(t, func() string {
			if more := book.Count() - before; more < 5000 {
				return fmt.Sprintf("%d records acknowledged in round %d", more, round)
			}
			return ""
		})
		p.Stop(t, syscall.SIGKILL)
		killed := book.Count()

		p = process.Start(t, s.Args()...)
		bootstrap, _ = p.Ready(t)
		await.For(t, func() string { // wait until the same producer continues
			if book.Count() <= killed {
				return "an acknowledgement after the restart"
			}
			return ""
		})
		cancel()
		t.Logf("round %d: %d records produced", round, <-streamed)
		if err := client.Flush(process.WithDeadline(t)); err != nil {
			t.Fatal(err)
		}
		checkTopic(t, bootstrap, "tickets", book)
	}
}

// TestSecondStartOnOneDataDirectoryFails starts a second process with the data directory of a
// running process. The second process must fail with an error that names the directory and its
// lock. The first process must continue to accept records.
func TestSecondStartOnOneDataDirectoryFails(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 1, cluster, tickets)
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)

	second := s
	second.Listen, second.HTTP = ports.Free(t, 1), ports.Free(t, 1)
	failed := process.Start(t, second.Args()...)
	code := failed.Wait(t)
	message := failed.Stderr.String()
	if code == 0 || !strings.Contains(message, s.DataDir) || !strings.Contains(message, "lock") {
		t.Errorf("second start ended with code %d and message %q", code, message)
	}

	book := ledger.New()
	load := traffic.Updates{Topic: "tickets", Keys: 10, Rounds: 1, Seed: 4}
	client := producer(t, bootstrap)
	if err := traffic.Produce(process.WithDeadline(t), client, book, load); err != nil {
		t.Fatal(err)
	}
	checkTopic(t, bootstrap, "tickets", book)
}
