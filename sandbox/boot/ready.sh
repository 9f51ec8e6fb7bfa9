# Says READY on descriptor 3 before any code of the job runs, and gives the channel up.
printf 'READY\n' >&3
exec 3>&-
unset BASH_ENV
