package smoke

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ports"
	"heartwood.dev/heartwood/test/kit/process"
)

// TestUnknownNamesFail checks that a command fails and prints the name if an object with this name
// does not exist. If the command also has the name of an existing object, it must show this object.
func TestUnknownNamesFail(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 1, cluster, tickets)
	process.Start(t, s.Args()...).Ready(t)
	names := []string{"--address", s.HTTP}
	missing := filepath.Join(t.TempDir(), "missing")
	for _, test := range []struct {
		args []string
		out  string // text in the first line of standard output; "": no output
		want string
	}{
		{append([]string{"topics", "nosuch"}, names...), "", `unknown topic "nosuch"`},
		{append([]string{"topics", "tickets", "nosuch"}, names...), "TOPIC", `unknown topic "nosuch"`},
		{append([]string{"topics", "nosuch", "--json"}, names...), `{"topics":[],`,
			`unknown topic "nosuch"`},
		{append([]string{"partitions", "nosuch"}, names...), "", `unknown topic "nosuch"`},
		{append([]string{"partitions", "tickets", "--retained"}, names...), "",
			`unknown retained topic "tickets"`},
		{append([]string{"clean", "nosuch"}, names...), "", `unknown topic "nosuch"`},
		{append([]string{"scrub", "nosuch"}, names...), "", `unknown topic "nosuch"`},
		{append([]string{"get", "nosuch", "key"}, names...), "", `nosuch`},
		{append([]string{"transactions", "describe", "nosuch"}, names...), "", `nosuch`},
		{[]string{"log", "clean", missing}, "cleaned: 0 bytes", "no such file or directory"},
		{[]string{"log", "verify", missing}, "", "no such file or directory"},
		{[]string{"log", "dump", missing}, "", "no such file or directory"},
	} {
		code, out, errOut := heartwood(t, test.args...)
		first, _, _ := strings.Cut(out, "\n")
		if code != 1 || !strings.Contains(first, test.out) || test.out == "" && out != "" ||
			!strings.Contains(errOut, test.want) {
			t.Errorf("%v: exit code %d, standard output %q, standard error %q", test.args, code, out,
				errOut)
		}
	}
}

// TestCommandsFollowTheBrokerProcesses checks commands with --processes: the parent process returns
// the brokers' addresses, and the commands send their requests to these addresses.
func TestCommandsFollowTheBrokerProcesses(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 2, cluster, tickets)
	s.HTTP = ports.Free(t, 3)
	process.Start(t, append(s.Args(), "--processes")...).Ready(t)
	for _, args := range [][]string{{"topics", "tickets"}, {"partitions", "tickets"},
		{"transactions"}, {"clean", "tickets", "--wait"}, {"scrub", "tickets", "--wait"}} {
		await.For(t, func() string {
			code, out, errOut := heartwood(t, append(args, "--address", s.HTTP)...)
			if code != 0 || args[0] != "transactions" && !strings.Contains(out, "tickets") {
				return fmt.Sprintf("%v: exit code %d, %s %s", args, code, out, errOut)
			}
			return ""
		})
	}
}
