package summary

import (
	"fmt"
	"strings"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// remedy lists what a user can do about a volume that is almost full.
const remedy = "Shorten retentions, delete records or topics, grow the volume, or add brokers."

// PressureLevels are the levels of storage pressure, from the mildest to the worst, each with its
// effect and its remedy.
var PressureLevels = []struct{ Level, Effect string }{
	{v1alpha1.PressureWarn, "Nothing is refused yet. " + remedy},
	{v1alpha1.PressureClean, "Nothing is refused yet; the cleaner reclaims as much as it can. " +
		remedy},
	{v1alpha1.PressureReject, "Produce requests are refused with NOT_ENOUGH_REPLICAS, which clients " +
		"retry, and no new replicas are assigned; reads and committed offsets continue. " + remedy},
	{v1alpha1.PressureReserve, "All records are refused, also replicated ones and committed " +
		"offsets: the rest of the volume is for the cleaner. Reads continue. " + remedy},
}

// DescribeVolume describes the volume of a broker under storage pressure. The numbers come from the
// broker's last report, so the text of a condition changes only when the broker reports a
// noticeable change.
func DescribeVolume(broker int32, v *v1alpha1.BrokerVolume) string {
	return fmt.Sprintf("Broker %d is at level %s: it uses %d%% of %s, of which the cleaner can "+
		"reclaim %s", broker, v.Pressure, v.UsedPercent, Binary(v.TotalBytes),
		Binary(v.ReclaimableBytes))
}

// Binary formats a number of bytes with a binary unit, such as 1.5Gi.
func Binary(bytes int64) string {
	unit, name := int64(1<<20), "Mi"
	if bytes >= 1<<30 {
		unit, name = 1<<30, "Gi"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bytes)/float64(unit)), ".0") + name
}
