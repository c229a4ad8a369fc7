package direct

import (
	"fmt"
	"strconv"
	"strings"
)

// Ordinal returns the number at the end of a StatefulSet pod's name, which is the node id: 0 to
// 2^31-1.
func Ordinal(podName string) (int32, error) {
	number := podName[strings.LastIndex(podName, "-")+1:]
	id, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("invalid argument %q for --pod-name: give a name that ends in a number, "+
			"such as demo-broker-0", podName)
	}
	return int32(id), nil
}
