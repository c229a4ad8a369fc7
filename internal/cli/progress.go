package cli

import (
	"fmt"
	"io"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/remote"
)

// printProgress prints the current or last rebalance run, and the certificate that expires first.
func printProgress(out io.Writer, st *status, now time.Time) {
	if line := rebalanceLine(st.Rebalance, now); line != "" {
		_, _ = fmt.Fprintln(out, printable(line))
	}
	if c := st.NextCertificateExpiry; c != nil {
		_, _ = fmt.Fprintln(out, printable(certificateLine(c, now)))
	}
}

// rebalanceLine returns a one-line description of a rebalance run, or "" if there was none.
func rebalanceLine(r *v1alpha1.RebalanceStatus, now time.Time) string {
	if r == nil || r.Phase == v1alpha1.RebalanceIdle {
		return ""
	}
	line := "Rebalance: " + string(r.Phase)
	if r.Trigger != "" {
		line += " (" + string(r.Trigger) + ")"
	}
	line += fmt.Sprintf(", %d of %d moves done, %s of %s copied", r.MovesDone, r.Moves,
		remote.Bytes(r.BytesDone), remote.Bytes(r.BytesTotal))
	switch {
	case r.Phase.Active() && r.EstimatedCompletionTime != nil:
		line += ", ends in " + age(r.EstimatedCompletionTime.Sub(now))
	case !r.Phase.Active() && r.CompletionTime != nil:
		line += ", ended " + age(now.Sub(r.CompletionTime.Time)) + " ago"
	}
	if r.Message != "" {
		line += ": " + r.Message
	}
	return line
}

func certificateLine(c *v1alpha1.CertificateExpiry, now time.Time) string {
	day := c.Time.UTC().Format(time.DateOnly)
	if left := c.Time.Sub(now); left > 0 {
		return fmt.Sprintf("Certificates: the first to expire is %s, in %s (%s)", c.Certificate,
			age(left), day)
	}
	return fmt.Sprintf("Certificates: %s expired %s ago (%s)", c.Certificate,
		age(now.Sub(c.Time.Time)), day)
}
