import os

from mpi4py import MPI

process = int(os.environ["OMPI_COMM_WORLD_RANK"])
count = int(os.environ["OMPI_COMM_WORLD_LOCAL_SIZE"])
os.environ["NODE_RANK"] = str(process // count)
print(os.environ["NODE_RANK"], MPI.COMM_WORLD.Get_rank())
