// Package spec holds the values that package plugin and its implementation share: the configuration of a stage, the
// models and results that it returns, its status, and its errors. It starts nothing and computes nothing. Hosts use
// these types through their aliases in package plugin.
package spec
