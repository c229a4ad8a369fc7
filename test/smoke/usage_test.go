package smoke

import (
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/process"
)

// TestInvalidInputEndsWithCode2 starts the binary with invalid flags or manifests. The binary must
// exit with code 2 and a message that contains the field or flag, the value, and the valid values.
func TestInvalidInputEndsWithCode2(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		topic string // this part of the tickets manifest is replaced by with
		with  string
		args  []string
		begin string   // first words of the expected message
		parts []string // other parts of the expected message
	}{
		"level out of the codec's range": {
			topic: "level: 3", with: "level: 30", begin: "spec.compression.level: ",
			parts: []string{"-131072 to 22", "cluster.yaml"},
		},
		"unknown field": {
			topic: "cleanupPolicy", with: "cleanUpPolicy", begin: "spec.cleanUpPolicy",
			parts: []string{"cluster.yaml"},
		},
		"unknown policy": {
			topic: "Compact\n", with: "Shred\n", begin: "spec.cleanupPolicy",
			parts: []string{"Shred", "CompactDelete"},
		},
		"unknown flag": {args: []string{"--broker", "1"}, parts: []string{"--broker"}},
		"flag without a value": {args: []string{"--brokers", "none"},
			parts: []string{"--brokers", "none"}},
		"value out of range": {args: []string{"--brokers", "0"},
			parts: []string{"--brokers", "0", "1 to"}},
		"invalid address": {args: []string{"--listen", "nowhere"},
			parts: []string{"listen", "nowhere"}},
		"missing manifest": {args: []string{"-f", "/does/not/exist.yaml"},
			parts: []string{"/does/not/exist.yaml"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := tickets
			if test.topic != "" {
				topic = strings.Replace(tickets, test.topic, test.with, 1)
			}
			p := process.Start(t,
				append(process.NewSetup(t, 1, cluster, topic).Args(), test.args...)...)
			code, message := p.Wait(t), p.Stderr.String()
			if code != 2 {
				t.Errorf("ended with code %d: %s", code, message)
			}
			if !strings.HasPrefix(message, test.begin) {
				t.Errorf("the message does not begin with %q: %s", test.begin, message)
			}
			for _, part := range test.parts {
				if !strings.Contains(message, part) {
					t.Errorf("the message lacks %q: %s", part, message)
				}
			}
		})
	}
}
