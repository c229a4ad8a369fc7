package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestExitCodes(t *testing.T) {
	tests := []struct {
		name    string
		args    []string
		code    int
		message string // of standard error, or of standard output when the code is 0
	}{
		{"help", []string{"--help"}, 0, "heartwood dev -f config/samples"},
		{"nothing is help", nil, 0, "Usage:"},
		{"version", []string{"--version"}, 0, "heartwood version dev"},
		{"unknown command", []string{"cleen"}, 2, `unknown command or argument "cleen"`},
		{"unknown flag", []string{"dev", "--port", "9"}, 2, "unknown flag: --port"},
		{"flag of the wrong type", []string{"dev", "--brokers", "many"}, 2, "--brokers"},
		{"flag out of range", []string{"dev", "--brokers", "0"}, 2,
			"invalid argument 0 for --brokers: give 1 to 100"},
		{"argument where none is taken", []string{"dev", "topics.yaml"}, 2, `"topics.yaml"`},
		{"log level", []string{"dev", "--log-level", "loud"}, 2,
			`"loud" is no log level: give debug, info, warn or error`},
		{"required flag", []string{"broker", "--cluster", "demo"}, 2,
			"flag --namespace is required"},
		{"every required flag that is missing", []string{"broker", "--cluster", "demo"}, 2,
			"flag --advertise is required: HOST:PORT that"},
		{"pod without a number", []string{
			"broker", "--cluster", "demo", "--namespace", "n", "--pod-name", "demo", "--advertise",
			"a:1",
		}, 2, `invalid argument "demo" for --pod-name`},
		{"address without a port", []string{"broker", "--listen", "here"}, 2,
			`"here" for "--listen" flag: want HOST:PORT`},
		{"port out of range", []string{"operator", "--metrics", ":70000"}, 2,
			`":70000" for "--metrics" flag: want a port from 0 to 65535`},
		{"operator without an image", []string{"operator"}, 2, "flag --image is required"},
		{"log without a path", []string{"log", "dump"}, 2, "give at least one PATH"},
		{"clean without a directory", []string{"log", "clean"}, 2, "give at least one PATH"},
		{"clean of nothing", []string{"log", "clean", "no/such/path-0"}, 1, "no/such"},
		{"clean of what is no partition", []string{"log", "clean", "."}, 1,
			"its name must be TOPIC-NUMBER"},
		{"clean at no time", []string{"log", "clean", "--now", "noon", "a-0"}, 2,
			`invalid argument "noon" for --now`},
		{"every wrong flag of clean",
			[]string{"log", "clean", "--memory", "5", "--workers", "0", "--min-lag", "-1s", "a-0"},
			2, "invalid argument 0 for --workers"},
		{"clean with too low a rate", []string{"log", "clean", "--io-rate", "1/s", "a-0"}, 2,
			"at least 1Ki a second"},
		{"clean without a topic", []string{"clean"}, 2, "give one TOPIC"},
		{"clean of two topics", []string{"clean", "a", "b"}, 2, "give one TOPIC"},
		{"clean of a partition that cannot be", []string{"clean", "a", "--partition", "-1"}, 2,
			"invalid argument -1 for --partition"},
		{"clean at no address", []string{"clean", "a", "--address", "here"}, 2,
			"want HOST:PORT, such as 127.0.0.1:9644"},
		{"clean where nobody listens", []string{"clean", "a", "--address", "127.0.0.1:1"}, 1,
			"connect to broker at 127.0.0.1:1: "},
		{"topics where nobody listens", []string{"topics", "--address", "http://127.0.0.1:1"}, 1,
			"connect to broker at 127.0.0.1:1: "},
		{"log of nothing", []string{"log", "verify", "no/such/path"}, 1, "no/such/path"},
		{"bench without a name is help", []string{"bench"}, 0, "purgatory"},
		{"bench of something else", []string{"bench", "sundial"}, 2,
			`unknown command or argument "sundial"`},
		{"bench purgatory", []string{"bench", "purgatory", "--requests", "100", "--timeout", "20ms",
			"--json"}, 0, `"requests":100,`},
		{"every wrong flag of bench produce",
			[]string{"bench", "produce", "--acks", "2", "--codec", "brotli", "--records", "0"}, 2,
			`codec "brotli": must be none, gzip`},
		{"bench consume of an address without a port",
			[]string{"bench", "consume", "--bootstrap", "kafka"}, 2,
			`bootstrap address "kafka": want HOST:PORT`},
		{"every wrong flag of bench purgatory",
			[]string{"bench", "purgatory", "--keys", "0", "--pct75", "1ms"}, 2,
			"for --keys: give 1 to --of-keys"},
		{"bench of an unknown codec", []string{"bench", "append", "--codec", "brotli"}, 2,
			`unknown codec "brotli": must be one of none, gzip`},
		{"bench of a level out of range",
			[]string{"bench", "append", "--codec", "gzip", "--level", "10"}, 2,
			"gzip level 10: must be 1 to 9"},
		{"bench of a level without a codec", []string{"bench", "append", "--level", "1"}, 2,
			"none takes no level"},
		{"bench of records beyond their batch", []string{"bench", "append", "--batch-bytes", "100"},
			2, "record bytes 1000: must be 40 to the batch bytes, 100"},
		{"plan", []string{"plan", "--keys", "200M", "--record-size", "5Ki", "--update-rate",
			"1k/s"}, 0, "a partition's pass is due"},
		{"plan as JSON", []string{"plan", "--keys", "1k", "--record-size", "1k", "--json"}, 0,
			`{"stored_record_bytes":1000,`},
		{"plan without what it needs", []string{"plan"}, 2, "flag --keys is required"},
		{"plan of a size that is none", []string{"plan", "--keys", "1", "--record-size", "5KB"}, 2,
			`"5KB" for "--record-size" flag: want a size, such as 5Ki`},
		{"plan of a rate that is none", []string{"plan", "--update-rate", "1/min"}, 2,
			"want a rate, such as 300/s"},
		{"plan of a negative number", []string{"plan", "--keys", "-5"}, 2,
			"want a number, such as 200M"},
		{"plan of more than all", []string{"plan", "--min-dirty-percent", "101"}, 2,
			"want a percentage from 0 to 100"},
		{"every fault of a plan",
			[]string{"plan", "--keys", "1", "--record-size", "1k", "--replicas", "3", "--brokers",
				"2", "--min-dirty-percent", "100%"}, 2, "at 100 no pass is ever due"},
		{"manifest that is not there", []string{"dev", "-f", "no/such/file.yaml"}, 2,
			"no/such/file.yaml"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := run(context.Background(), test.args, &out, &errOut)
			if code != test.code {
				t.Errorf("exit code %d, want %d; standard error: %s", code, test.code,
					errOut.String())
			}
			seen := errOut.String()
			if test.code == 0 {
				seen = out.String()
			}
			if !strings.Contains(seen, test.message) {
				t.Errorf("%q does not say %q", seen, test.message)
			}
		})
	}
}

func TestOrdinal(t *testing.T) {
	for name, want := range map[string]int32{"demo-broker-0": 0, "a-b-c-17": 17} {
		if got, err := ordinal(name); err != nil || got != want {
			t.Errorf("ordinal(%q) = %d, %v; want %d", name, got, err, want)
		}
	}
	for _, name := range []string{"", "demo", "demo-", "demo-x", "demo--1x", "demo-99999999999"} {
		if got, err := ordinal(name); err == nil {
			t.Errorf("ordinal(%q) = %d, want an error", name, got)
		}
	}
}
