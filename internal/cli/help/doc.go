// Package help prints the help of the commands heartwood and kubectl heartwood. The description of
// a flag may begin with the placeholder of its value in backquotes; the help shows the placeholder
// after the flag's name, and not in the description:
//
//	flags.StringVar(&format, "output", "text", "`FORMAT` text or json")
//
//	--output FORMAT   text or json (default "text")
//
// In package pflag the placeholder is a word of the description and would be printed twice.
package help
