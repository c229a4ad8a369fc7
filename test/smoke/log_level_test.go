package smoke

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/process"
)

// logged returns a LogCluster's manifest with the given settings.
func logged(settings string) string {
	return fmt.Sprintf(`apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: smoke}
spec: {brokers: 2%s}
`, settings)
}

// TestLogLevelChangesWithoutARestart checks that the brokers log messages of level debug while the
// manifest requests this level. It runs all brokers in one process, and then each broker in its own
// process.
func TestLogLevelChangesWithoutARestart(t *testing.T) {
	t.Parallel()
	// In one process, the brokers share a log level, so only the first broker changes it.
	for processes, changes := range map[bool][]string{false: {""}, true: {"broker=0", "broker=1"}} {
		t.Run(fmt.Sprint("processes ", processes), func(t *testing.T) {
			t.Parallel()
			s := process.NewSetup(t, 2, logged(""))
			p := process.Start(t, append(s.Args(), fmt.Sprint("--processes=", processes))...)
			bootstrap, _ := p.Ready(t)
			change := func(settings, level string) {
				t.Helper()
				s.Apply(t, "cluster.yaml", logged(settings))
				for _, broker := range changes {
					await.For(t, func() string {
						return missingLine(p, "log level changed", "to="+level, broker)
					})
				}
			}
			change(", logging: {level: Debug}", "DEBUG")
			client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			// The first group causes the creation of __consumer_offsets. Both brokers then load coordinators
			// of this topic.
			kadm.NewClient(client).FindGroupCoordinators(process.WithDeadline(t), "g")
			for _, broker := range []string{"broker=0", "broker=1"} {
				await.For(t, func() string {
					return missingLine(p, "level=DEBUG", "coordinator shard loaded", broker)
				})
			}
			change(", logging: {level: Info}", "INFO")
		})
	}
}

// missingLine returns "" if the process has logged a line that contains all of the words.
func missingLine(p *process.Process, words ...string) string {
	for line := range strings.Lines(p.Stderr.String()) {
		found := 0
		for _, word := range words {
			if strings.Contains(line, word) {
				found++
			}
		}
		if found == len(words) {
			return ""
		}
	}
	return fmt.Sprintf("no line of the log contains %q", words)
}
