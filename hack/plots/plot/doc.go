// Package plot draws measurements, such as the results in docs/internals/bench, and panels of
// dashboards as SVG pictures.
//
// A picture shows every run as a separate mark. If only the median and the range of a measurement
// exist, these are drawn, so a picture never suggests runs that do not exist. Each series has a
// colour and a shape, so a colour-blind reader or a black and white print loses no information. A
// picture contains its own background, and a second set of colours that a browser uses in dark
// mode; gonum/plot has no second set.
//
// The package is pure: each byte of a picture depends only on the picture's figure. hack/plots
// writes the files, and its test compares them with the committed files.
package plot
