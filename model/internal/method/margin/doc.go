// Package margin has the methods that neighbours of the own class and of others define: mfa, lfda, dla, lsda, dawge,
// lsmpa and ksmpa. ksmpa is lsmpa in the space of a kernel.
package margin
