# Says on 7 that the shell is up, waits on 4 for a job, and gives both up; then Bash opens the job's file.
printf . >&7
exec 7>&-
read -r -u 4
exec 4<&-
unset BASH_ENV REPLY
